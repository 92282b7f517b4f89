// SPDX-License-Identifier: Apache-2.0
// The fully connected layer with a constant weight packed in the order in which it is read: blocks of output units
// fill a vector, so that one element of the data meets a vector of units.
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/relay/layout.h"

namespace treadle::ops {
namespace {

using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using relay::LaidOutCall;
using relay::LayoutArgs;

constexpr int64_t kBlock = 16;

/// data (.., k), weight (ceil(units / 16), k, 16): (.., units). Attribute units must be given.
Type PackedDenseInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* weight = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<DenseAttrs>();
  CheckRank(weight, 3, "weight");
  if (data->shape.empty() || !attrs->units.has_value()) throw ShapeError("needs data of rank 1 and more, and units");
  if (!SameDim(data->shape.back(), weight->shape[1]) && !context.Equal(data->shape.back(), weight->shape[1])) {
    throw ShapeError("the inner dimensions of data and weight differ");
  }
  Array<PrimExpr> out = data->shape;
  out.Set(out.size() - 1, Dim(*attrs->units));
  return TensorType(out, attrs->out_dtype.is_void() ? data->dtype : attrs->out_dtype);
}

Array<te::Tensor> PackedDenseCompute(const Attrs&, const Array<te::Tensor>& inputs, const Type& out_type) {
  const te::Tensor& data = inputs[0];
  const te::Tensor& weight = inputs[1];
  const TensorTypeNode* type = OutTensor(out_type);
  te::IterVar k = te::ReduceAxis(tir::Range(weight->shape[1]), "k");
  DataType dtype = type->dtype;
  return {te::Compute(type->shape, [&](const Array<te::Var>& i) {
    Array<PrimExpr> from = Indices(i);
    PrimExpr unit = from.back();
    from.Set(from.size() - 1, k->var);
    PrimExpr w = weight(tir::floordiv(unit, Index(kBlock)), k->var, tir::floormod(unit, Index(kBlock)));
    return te::Sum(tir::cast(dtype, data(from)) * tir::cast(dtype, w), {k});
  }, "packed_dense", "packed_dense")};
}

/// Packs constant float weights.
std::optional<LaidOutCall> DenseLayoutRule(const CallNode* call, LayoutArgs& args) {
  const auto* attrs = call->attrs.as<DenseAttrs>();
  const auto* weight = args.Type(1);
  if (attrs == nullptr || call->args[1].as<ConstantNode>() == nullptr || !IsStatic(weight) ||
      weight->dtype != DataType::Float(32) || args.Type(0)->dtype != DataType::Float(32)) {
    return std::nullopt;
  }
  int64_t units = *AsConstInt(weight->shape[0]);
  Expr packed = call->args[1];
  int64_t missing = (kBlock - units % kBlock) % kBlock;
  if (missing != 0) {
    packed = CallWith<PadAttrs>("nn.pad", {packed, ScalarConstant(weight->dtype, 0.0)}, [&](auto& a) {
      a.pad_width = IntPairs({{0, missing}, {0, 0}});
    });
  }
  packed = relay::LayoutTransform(packed, "NC", "NC" + std::to_string(kBlock) + "n");
  Expr dense = CallWith<DenseAttrs>("nn.packed_dense", {args.Get(0, ""), packed}, [&](auto& a) {
    a.units = units;
    a.out_dtype = attrs->out_dtype;
  });
  return LaidOutCall{relay::Call(dense.as<CallNode>()->op, dense.as<CallNode>()->args, dense.as<CallNode>()->attrs, {},
                                 call->span),
                     ""};
}

}  // namespace

void RegisterPackedDenseOp() {
  OpRegistration("nn.packed_dense")
      .Describe("Fully connected layer with a packed weight.")
      .Arguments({{"data", "Tensor", "(.., k)"}, {"weight", "Tensor", "(ceil(units / 16), k, 16)"}})
      .AttrsType<DenseAttrs>()
      .SupportLevel(10)
      .Relation(Rule<PackedDenseInfer, 2>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(kCompute, FTECompute(PackedDenseCompute));
  OpRegistration("nn.dense").Set(relay::kLayoutRule, relay::FLayoutRule(DenseLayoutRule));
}

}  // namespace treadle::ops
