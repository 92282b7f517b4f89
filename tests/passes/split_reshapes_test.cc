// SPDX-License-Identifier: Apache-2.0
#include "passes/split_reshapes.h"

#include "passes/pass_test.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

TEST(SplitReshapes, AReshapeAtTheEndIsAView) {
  ExpectPass(transform::SplitReshapes(), R"(
fn (%x: Tensor[(2, 3, 4), float32]) {
  %2 = fn (%p0: Tensor[(2, 3, 4), float32], Primitive=1) {
    %0 = transpose(%p0, axes=[0, 2, 1]);
    %1 = reshape(%0, newshape=[2, 12]);
    expand_dims(%1, axis=0)
  };
  %2(%x)
})",
             R"(
fn (%x: Tensor[(2, 3, 4), float32]) {
  %0 = fn (%p0: Tensor[(2, 3, 4), float32], Primitive=1) { transpose(%p0, axes=[0, 2, 1]) };
  %1 = %0(%x);
  %3 = fn (%p0: Tensor[(2, 4, 3), float32], Primitive=1, relay.reshape_only=1) {
    %2 = reshape(%p0, newshape=[2, 12]);
    expand_dims(%2, axis=0)
  };
  %3(%1)
})");
}

TEST(SplitReshapes, ViewsAndReshapesWithinStay) {
  const char* text = R"(
fn (%x: Tensor[(2, 12), float32]) {
  %0 = fn (%p0: Tensor[(2, 12), float32], Primitive=1, relay.reshape_only=1) { reshape(%p0, newshape=[2, 3, 4]) };
  %1 = %0(%x);
  %3 = fn (%p0: Tensor[(2, 3, 4), float32], Primitive=1) {
    %2 = reshape(%p0, newshape=[6, 4]);
    exp(%2)
  };
  %3(%1)
})";
  ExpectPass(transform::SplitReshapes(), text, text);
}

}  // namespace
}  // namespace treadle::relay
