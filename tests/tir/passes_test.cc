// SPDX-License-Identifier: Apache-2.0
// Lowering passes, text in and text out.
#include "tir/passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests_common/sample_functions.h"
#include "treadle/ir/structural.h"
#include "treadle/tir/text.h"
#include "treadle/tir/verify.h"

namespace treadle::tir {
namespace {

using testing::HasSubstr;
using testing::Not;

const char* const kHead = R"(primfn(a: handle, n: int32) -> ()
  attr = {"global_symbol": "f"}
  buffers = {A: Buffer(p: Pointer(float32), float32, [64], [])}
  buffer_map = {a: A} {
)";

/// The body after the pass, in the printed form of `expected`.
void ExpectBody(PrimFunc (*pass)(PrimFunc, const LowerConfig&), const std::string& body, const std::string& expected) {
  PrimFunc after = pass(ParsePrimFunc(kHead + body + "}"), LowerConfig());
  EXPECT_EQ(FindFault(after), "");
  EXPECT_EQ(AsText(after, false), AsText(ParsePrimFunc(kHead + expected + "}"), false));
}

TEST(HoistIfThenElse, InvariantConditionsLeaveLoops) {
  ExpectBody(HoistIfThenElse,
             "for (i: int32, 0, 8) { for (j: int32, 0, 8) { if ((n < 4) && (j < i)) { A[(i*8) + j] = 1f32 } } }",
             "if (n < 4) { for (i: int32, 0, 8) { for (j: int32, 0, 8) { if (j < i) { A[(i*8) + j] = 1f32 } } } }");
}

TEST(HoistIfThenElse, ConditionsOnDataStay) {
  const char* text = "for (i: int32, 0, 8) { if (A[0] < 4f32) { A[i] = 1f32 } }";
  ExpectBody(HoistIfThenElse, text, text);
}

TEST(InjectVirtualThread, FewThreadsAreUnrolled) {
  ExpectBody(InjectVirtualThread, "for (i: int32, 0, 4) thread_binding(\"vthread\") { A[i] = 1f32 }",
             "for (i: int32, 0, 4) unroll { A[i] = 1f32 }");
}

TEST(StorageRewrite, BuffersThatDontLiveTogetherShareMemory) {
  const char* text = R"(
    allocate(x: Pointer(global float32), float32, [4096]), storage_scope = "global";
    allocate(y: Pointer(global float32), float32, [4096]), storage_scope = "global";
    allocate(z: Pointer(global float32), float32, [2048]), storage_scope = "global";
    x[0] = A[0]
    y[0] = x[0]
    z[0] = y[0]
    A[0] = z[0])";
  std::string after = AsText(StorageRewrite(ParsePrimFunc(std::string(kHead) + text + "}"), LowerConfig()));
  EXPECT_THAT(after, HasSubstr("x[0] = (float32*)y[0]"));
  EXPECT_THAT(after, Not(HasSubstr("allocate(z")));
}

TEST(StorageRewrite, BuffersInUseTogetherStayApart) {
  const char* text = R"(
    allocate(x: Pointer(global float32), float32, [4096]), storage_scope = "global";
    allocate(y: Pointer(global float32), float32, [4096]), storage_scope = "global";
    x[0] = A[0]
    y[0] = A[1]
    A[0] = (float32*)x[0] + (float32*)y[0])";
  PrimFunc before = ParsePrimFunc(std::string(kHead) + text + "}");
  EXPECT_EQ(AsText(StorageRewrite(before, LowerConfig())), AsText(before));
}

TEST(InjectDoubleBuffer, FillsOneIterationAhead) {
  const char* text = R"(
    for (i: int32, 0, 8) {
      allocate(x: Pointer(global float32), float32, [4]), storage_scope = "global" annotations {"double_buffer_scope": 1};
      for (j: int32, 0, 4) { x[j] = A[i + j] }
      for (k: int32, 0, 4) { A[32 + k] = (float32*)x[k] }
    })";
  // What is filled is read from A, which the rest writes: refused.
  PrimFunc before = ParsePrimFunc(std::string(kHead) + text + "}");
  EXPECT_EQ(AsText(InjectDoubleBuffer(before, LowerConfig())), AsText(before));
}

TEST(Text, EveryPassKeepsTheRoundTrip) {
  LowerConfig config;
  PrimFunc func = testing_util::ConvRelu(6, 3);
  EXPECT_TRUE(StructuralEqual(func, ParsePrimFunc(AsText(func))));
  for (const LoweringPass& pass : LoweringPasses()) {
    func = pass.run(func, config);
    EXPECT_EQ(FindFault(func), "") << pass.name;
    EXPECT_EQ(StructuralDifference(func, ParsePrimFunc(AsText(func))), "") << pass.name << "\n" << AsText(func);
  }
}

}  // namespace
}  // namespace treadle::tir
