// SPDX-License-Identifier: Apache-2.0
#include "passes/widen_floats.h"

#include "passes/pass_test.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

TEST(WidenFloats, ParametersStayResultsAreWide) {
  ExpectPass(transform::WidenFloats(),
             "fn (%x: Tensor[(4), float32], %n: Tensor[(4), int32]) { (add(exp(%x), 0.5f), %n) }", R"(
fn (%x: Tensor[(4), float32], %n: Tensor[(4), int32]) {
  (add(exp(cast(%x, dtype="float64")), 0.5f64), %n)
})");
}

TEST(WidenFloats, AttributesThatNameTypes) {
  ExpectPass(transform::WidenFloats(), "fn (%n: Tensor[(4), int32]) { sqrt(cast(%n, dtype=\"float16\")) }",
             "fn (%n: Tensor[(4), int32]) { sqrt(cast(%n, dtype=\"float64\")) }");
}

TEST(WidenFloats, CastsAroundOperatorsOfFloat32Alone) {
  ExpectPass(transform::WidenFloats(), R"(
fn (%x: Tensor[(4), float32]) {
  %0 = qnn.quantize(%x, 0.5f, 0, out_dtype="int8");
  exp(cast(%0, dtype="float32"))
})",
             R"(
fn (%x: Tensor[(4), float32]) {
  %0 = cast(cast(%x, dtype="float64"), dtype="float32");
  %1 = qnn.quantize(%0, cast(0.5f64, dtype="float32"), 0, out_dtype="int8");
  exp(cast(%1, dtype="float64"))
})");
}

TEST(WidenFloats, OtherFunctionsTakeWideValues) {
  ExpectPass(transform::WidenFloats(), R"(
def @f(%a: Tensor[(4), float32]) -> Tensor[(4), float32] { exp(%a) }
def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] { @f(%x) })",
             R"(
def @f(%a: Tensor[(4), float64]) -> Tensor[(4), float64] { exp(%a) }
def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float64] { @f(cast(%x, dtype="float64")) })");
}

}  // namespace
}  // namespace treadle::relay
