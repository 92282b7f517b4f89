// SPDX-License-Identifier: Apache-2.0
#include "treadle/tir/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests_common/sample_functions.h"
#include "treadle/tir/text.h"

namespace treadle::tir {
namespace {

TEST(Verify, SampleIsWellFormed) { EXPECT_EQ(FindFault(testing_util::ConvRelu(6, 3)), ""); }

TEST(Verify, UndefinedVariableIsNamed) {
  Buffer a = DeclBuffer({PrimExpr(4)}, DataType::Int(32), "A");
  Var handle("a", DataType::Handle()), stray("stray");
  PrimFunc f({handle}, BufferStore(a, stray, {PrimExpr(0)}), Type(), {{handle, a}});
  EXPECT_THAT(FindFault(f), testing::HasSubstr("'stray'"));
}

TEST(Verify, UnallocatedBufferIsNamed) {
  Buffer a = DeclBuffer({PrimExpr(4)}, DataType::Int(32), "scratch");
  EXPECT_THAT(FindFault(PrimFunc({}, BufferStore(a, PrimExpr(1), {PrimExpr(0)}))), testing::HasSubstr("'scratch'"));
}

TEST(Print, NestedLoopsReadLikeTheOriginal) {
  std::string text = AsText(testing_util::Matmul(4, 6, 8));
  EXPECT_THAT(text, testing::HasSubstr("for (i0: int32, 0, 4) {"));
  EXPECT_THAT(text, testing::HasSubstr("C[vi0, vi1] = (C[vi0, vi1] + (A[vi0, vk]*B[vk, vi1]))"));
}

}  // namespace
}  // namespace treadle::tir
