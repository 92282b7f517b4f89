// SPDX-License-Identifier: Apache-2.0
// Products with weights that have a scale per block of rows.
#include "passes/qnn_passes.h"

#include "../passes/pass_test.h"
#include "treadle/runtime/scalar.h"
#include "treadle/targets/target_spec.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

/// `text` after the pass; parameters that start with "w_" are constants of 1.
std::string AfterPass(const std::string& text) {
  targets::GetTargetSpec(Target("llvm"));  // brings the kernels of its operators
  const IRModule module = relay::InferTypes(Parse(text));
  const auto main = Downcast<Function>(module->Lookup("main"));
  Map<Var, Expr> constants;
  for (const Var& param : main->params) {
    if (param->name_hint().substr(0, 2) != "w_") continue;
    const auto* type = param->checked_type().as<TensorTypeNode>();
    std::vector<int64_t> shape;
    int64_t size = 1;
    for (const PrimExpr& d : type->shape) shape.push_back(*AsConstInt(d));
    for (int64_t d : shape) size *= d;
    const std::vector<int64_t> ones(static_cast<size_t>(size), 1);
    constants.Set(param, Constant(runtime::FromInt64s(ones, shape, type->dtype)));
  }
  const IRModule bound = relay::InferTypes(IRModule::FromExpr(relay::Bind(main, constants)));
  return Show(relay::InferTypes(transform::PackBlockWeights()(bound)));
}

bool IsPacked(const std::string& text) {
  const std::string after = AfterPass(text);
  const bool packed = after.find("qnn.contrib_block_product") != std::string::npos;
  const bool plain = after.find("nn.dense(") != std::string::npos || after.find("nn.matmul(") != std::string::npos;
  EXPECT_NE(packed, plain) << after;
  return packed;
}

const std::string kHead = "fn (%x: Tensor[(3, 64), float32], %w_q: Tensor[";
const std::string kAlongRows = kHead + "(64, 8), int8], %w_s: Tensor[(2, 8), float32], %w_z: Tensor[(2, 8), int8]) { ";
const std::string kAlongColumns =
    kHead + "(8, 64), uint8], %w_s: Tensor[(8, 2), float32], %w_z: Tensor[(8, 2), uint8]) { ";

TEST(PackBlockWeights, WithoutZeroPoints) {
  EXPECT_TRUE(IsPacked(kAlongRows + "nn.matmul(%x, multiply(cast(cast(%w_q, dtype=\"int32\"), dtype=\"float32\"), "
                                    "repeat(%w_s, repeats=32, axis=0)), units=None) }"));
}

TEST(PackBlockWeights, WithZeroPointsAlongColumns) {
  EXPECT_TRUE(IsPacked(kAlongColumns +
                       "nn.dense(%x, multiply(cast(subtract(cast(%w_q, dtype=\"int32\"), cast(repeat(%w_z, repeats=32, "
                       "axis=1), dtype=\"int32\")), dtype=\"float32\"), repeat(%w_s, repeats=32, axis=1)), "
                       "units=None) }"));
}

TEST(PackBlockWeights, BlocksAlongTheOtherDimensionStay) {
  EXPECT_FALSE(IsPacked(kHead + "(64, 32), int8], %w_s: Tensor[(64, 1), float32]) { "
                                "nn.matmul(%x, multiply(cast(%w_q, dtype=\"float32\"), "
                                "repeat(%w_s, repeats=32, axis=1)), units=None) }"));
}

TEST(PackBlockWeights, WeightsThatArentKnownStay) {
  EXPECT_FALSE(
      IsPacked("fn (%x: Tensor[(3, 64), float32], %q: Tensor[(64, 8), int8], %w_s: Tensor[(2, 8), float32]) "
               "{ nn.matmul(%x, multiply(cast(%q, dtype=\"float32\"), repeat(%w_s, repeats=32, axis=0)), "
               "units=None) }"));
}

TEST(PackBlockWeights, BlocksOfOtherZeroPointsStay) {
  EXPECT_FALSE(IsPacked(kHead + "(64, 8), int8], %w_s: Tensor[(2, 8), float32], %w_z: Tensor[(4, 8), int8]) { "
                                "nn.matmul(%x, multiply(cast(subtract(cast(%w_q, dtype=\"int32\"), "
                                "cast(repeat(%w_z, repeats=16, axis=0), dtype=\"int32\")), dtype=\"float32\"), "
                                "repeat(%w_s, repeats=32, axis=0)), units=None) }"));
}

}  // namespace
}  // namespace treadle::relay
