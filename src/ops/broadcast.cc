// SPDX-License-Identifier: Apache-2.0
// Operators on two or more tensors whose shapes are broadcast. Semantics: ONNX (of opset 7 and later) and NumPy.
#include "ops/families.h"
#include "ops/infer.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

const std::vector<OpArgument> kOperands = {{"lhs", "Tensor", "The left hand side."},
                                           {"rhs", "Tensor", "The right hand side."}};

Type IntegralBroadcastInfer(const InferContext& context) {
  CheckIntegral(context.Tensor(0, "lhs"), "lhs");
  return BroadcastInfer(context);
}

Type WhereInfer(const InferContext& context) {
  const auto* condition = context.Tensor(0, "condition");
  const auto* x = context.Tensor(1, "x");
  const auto* y = context.Tensor(2, "y");
  CheckSameDType(x, y);
  Array<PrimExpr> values = BroadcastShape(context, x->shape, y->shape);
  return TensorType(BroadcastShape(context, condition->shape, values), x->dtype);
}

Type BroadcastToInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<InitOpAttrs>();
  Array<PrimExpr> joint = BroadcastShape(context, data->shape, attrs->shape);
  bool fits = joint.size() == attrs->shape.size();
  for (size_t i = 0; fits && i < joint.size(); ++i) fits = SameDim(joint[i], attrs->shape[i]);
  if (!fits) throw ShapeError(StrCat("can't broadcast ", ShapeText(data->shape), " to ", ShapeText(attrs->shape)));
  return TensorType(attrs->shape, data->dtype);
}

Type BroadcastToLikeInfer(const InferContext& context) {
  return TensorType(context.Tensor(1, "shape_like")->shape, context.Tensor(0, "data")->dtype);
}

OpRegistration Binary(const char* name, const char* text, TypeRelationFn relation = Rule<BroadcastInfer>) {
  return OpRegistration(name).Describe(text).Arguments(kOperands).SupportLevel(1).Relation(relation).Set(
      kOpPattern, OpPatternKind::kBroadcast);
}

}  // namespace

void RegisterBroadcastOps() {
  Binary("add", "lhs + rhs.");
  Binary("subtract", "lhs - rhs.");
  Binary("multiply", "lhs * rhs.");
  Binary("divide", "lhs / rhs; integers truncate, a zero divisor gives 0.");
  Binary("floor_divide", "floor(lhs / rhs); an integer zero divisor gives 0.");
  Binary("mod", "Remainder of truncating division: has the sign of lhs. An integer zero divisor gives 0.");
  Binary("floor_mod", "Remainder of floor division: has the sign of rhs. An integer zero divisor gives 0.");
  Binary("power", "lhs to the power of rhs.");
  Binary("maximum", "The greater; NaN if either is.");
  Binary("minimum", "The smaller; NaN if either is.");
  Binary("left_shift", "lhs << rhs.", Rule<IntegralBroadcastInfer>);
  Binary("right_shift", "lhs >> rhs; arithmetic for signed types.", Rule<IntegralBroadcastInfer>);
  Binary("bitwise_and", "Bits set in both.", Rule<IntegralBroadcastInfer>);
  Binary("bitwise_or", "Bits set in either.", Rule<IntegralBroadcastInfer>);
  Binary("bitwise_xor", "Bits set in one of them.", Rule<IntegralBroadcastInfer>);
  Binary("logical_and", "Whether both are nonzero.");
  Binary("logical_or", "Whether either is nonzero.");
  Binary("logical_xor", "Whether one of them is nonzero.");
  Binary("equal", "lhs == rhs.", Rule<CompareInfer>);
  Binary("not_equal", "lhs != rhs.", Rule<CompareInfer>);
  Binary("less", "lhs < rhs.", Rule<CompareInfer>);
  Binary("less_equal", "lhs <= rhs.", Rule<CompareInfer>);
  Binary("greater", "lhs > rhs.", Rule<CompareInfer>);
  Binary("greater_equal", "lhs >= rhs.", Rule<CompareInfer>);
  Binary("where", "x where the condition is nonzero, else y.", Rule<WhereInfer>)
      .Arguments({{"condition", "Tensor", "What decides."},
                  {"x", "Tensor", "Taken where true."},
                  {"y", "Tensor", "Taken where false."}});
  Binary("broadcast_to", "Broadcast to a given shape.", Rule<BroadcastToInfer>)
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<InitOpAttrs>();
  Binary("broadcast_to_like", "Broadcast to the shape of the other tensor.", Rule<BroadcastToLikeInfer>)
      .Arguments({{"data", "Tensor", "The input."}, {"shape_like", "Tensor", "Has the shape of the result."}});
}

}  // namespace treadle::ops
