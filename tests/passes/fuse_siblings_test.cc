// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse_siblings.h"

#include "passes/pass_test.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

constexpr const char* kTwoReaders = R"(
fn (%x: Tensor[(4, 8), float32], %y: Tensor[(8), float32]) {
  %1 = fn (%p0: Tensor[(4, 8), float32], %p1: Tensor[(8), float32], Primitive=1) {
    %0 = exp(%p0);
    add(%0, %p1)
  };
  %2 = %1(%x, %y);
  %3 = fn (%p0: Tensor[(4, 8), float32], Primitive=1) { tanh(%p0) };
  %4 = %3(%x);
  (%2, %4)
})";

TEST(FuseSiblings, ReadersOfOneTensorHaveOneFunction) {
  ExpectPass(transform::FuseSiblings(128), kTwoReaders, R"(
fn (%x: Tensor[(4, 8), float32], %y: Tensor[(8), float32]) {
  %2 = fn (%p0: Tensor[(4, 8), float32], %p1: Tensor[(8), float32], Primitive=1, siblings=1) {
    %0 = exp(%p0);
    %1 = add(%0, %p1);
    (%1, tanh(%p0))
  };
  %3 = %2(%x, %y);
  (%3.0, %3.1)
})");
}

TEST(FuseSiblings, SmallTensorsAreReadAgain) { ExpectPass(transform::FuseSiblings(129), kTwoReaders, kTwoReaders); }

TEST(FuseSiblings, ResultsThatNeedEachOtherStayApart) {
  const char* text = R"(
fn (%x: Tensor[(4, 8), float32]) {
  %0 = fn (%p0: Tensor[(4, 8), float32], Primitive=1) { exp(%p0) };
  %1 = %0(%x);
  %2 = fn (%p0: Tensor[(4, 8), float32], %p1: Tensor[(4, 8), float32], Primitive=1) { add(%p0, %p1) };
  %3 = %2(%x, %1);
  (%1, %3)
})";
  ExpectPass(transform::FuseSiblings(1), text, text);
}

}  // namespace
}  // namespace treadle::relay
