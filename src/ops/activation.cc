// SPDX-License-Identifier: Apache-2.0
// Activations and the addition of a bias. Others (hard sigmoid, gelu, selu, ...) are compositions of these and of
// element-wise operators, which fuse.
#include "ops/families.h"
#include "ops/infer.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

Type LeakyReluInfer(const InferContext& context) {
  context.attrs<LeakyReluAttrs>();
  return IdentityInfer(context);
}

Type PReluInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  int axis = NormalizeAxis(context.attrs<PReluAttrs>()->axis, data->shape.size());
  context.Expect(1, TensorType(Array<PrimExpr>{data->shape[static_cast<size_t>(axis)]}, data->dtype));
  return context.type(0);
}

Type BiasAddInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  int axis = NormalizeAxis(context.attrs<BiasAddAttrs>()->axis, data->shape.size());
  context.Expect(1, TensorType(Array<PrimExpr>{data->shape[static_cast<size_t>(axis)]}, data->dtype));
  return context.type(0);
}

}  // namespace

void RegisterActivationOps() {
  OpRegistration("nn.relu")
      .Describe("max(x, 0); NaN stays.")
      .Arguments({{"data", "Tensor", "The input."}})
      .SupportLevel(1)
      .Relation(Rule<IdentityInfer>)
      .Set(kOpPattern, OpPatternKind::kElemWise);
  OpRegistration("nn.leaky_relu")
      .Describe("x where positive, else alpha * x.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<LeakyReluAttrs>()
      .SupportLevel(3)
      .Relation(Rule<LeakyReluInfer>)
      .Set(kOpPattern, OpPatternKind::kElemWise);
  OpRegistration("nn.prelu")
      .Describe("x where positive, else alpha[channel] * x.")
      .Arguments({{"data", "Tensor", "The input."}, {"alpha", "Tensor", "Slope of each channel."}})
      .AttrsType<PReluAttrs>()
      .SupportLevel(3)
      .Relation(Rule<PReluInfer, 1>)
      .Set(kOpPattern, OpPatternKind::kBroadcast);
  OpRegistration("nn.bias_add")
      .Describe("data + bias, the bias running along one dimension.")
      .Arguments({{"data", "Tensor", "The input."}, {"bias", "Tensor", "Vector."}})
      .AttrsType<BiasAddAttrs>()
      .SupportLevel(1)
      .Relation(Rule<BiasAddInfer, 1>)
      .Set(kOpPattern, OpPatternKind::kBroadcast);
}

}  // namespace treadle::ops
