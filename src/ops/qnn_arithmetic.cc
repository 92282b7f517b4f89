// SPDX-License-Identifier: Apache-2.0
// Element-wise operators on quantised tensors, computed in float32 on the numbers that they stand for.
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/qnn.h"
#include "treadle/ops/attrs/qnn.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace qnn {
namespace {

using relay::Expr;

/// Operands: lhs, rhs; scale and zero point of lhs, rhs and the result, all scalars.
Type BinaryInfer(const InferContext& context) {
  const auto* lhs = context.Tensor(0, "lhs");
  CheckSameDType(lhs, context.Tensor(1, "rhs"));
  CheckIntegral(lhs, "lhs");
  for (int i = 2; i < 8; ++i) CheckRank(context.Tensor(i, "scale or zero point"), 0, "scale or zero point");
  return BroadcastInfer(context);
}

Expr BinaryRule(const char* plain, const Array<Expr>& args, const Array<Type>& types) {
  Expr real = CallOp(plain, {Dequantized(args[0], args[2], args[3]), Dequantized(args[1], args[4], args[5])});
  return Quotient(real, args[6], args[7], DTypeOf(types[0]));
}

void RegisterBinary(const char* name, const char* plain, const char* doc) {
  OpRegistration(name)
      .Describe(doc)
      .Arguments({{"lhs", "Tensor", "Quantised"},
                  {"rhs", "Tensor", "Quantised"},
                  {"lhs_scale", "Tensor", "Scalar"},
                  {"lhs_zero_point", "Tensor", "Scalar"},
                  {"rhs_scale", "Tensor", "Scalar"},
                  {"rhs_zero_point", "Tensor", "Scalar"},
                  {"output_scale", "Tensor", "Scalar"},
                  {"output_zero_point", "Tensor", "Scalar"}})
      .SupportLevel(11)
      .Relation(Rule<BinaryInfer>)
      .Set(relay::kQnnCanonicalize,
           relay::FLegalize([plain](const Attrs&, const Array<Expr>& args, const Array<Type>& types) {
             return BinaryRule(plain, args, types);
           }));
}

/// Operands: data (tuple), scales (tuple), zero points (tuple), scale and zero point of the result.
Type ConcatenateInfer(const InferContext& context) {
  const auto* attrs = context.attrs<ConcatenateAttrs>();
  const auto fields = context.Tuple(0, "data");
  if (fields.empty()) throw ShapeError("nothing to join");
  if (context.Tuple(1, "input_scales").size() != fields.size() ||
      context.Tuple(2, "input_zero_points").size() != fields.size()) {
    throw ShapeError("every tensor that is joined needs a scale and a zero point");
  }
  const auto axis = static_cast<size_t>(NormalizeAxis(attrs->axis, fields[0]->shape.size()));
  Array<PrimExpr> shape = fields[0]->shape;
  for (size_t i = 1; i < fields.size(); ++i) {
    CheckSameDType(fields[0], fields[i]);
    CheckRank(fields[i], shape.size(), "data");
    shape.Set(axis, DimAdd(shape[axis], fields[i]->shape[axis]));
  }
  return TensorType(shape, fields[0]->dtype);
}

Expr ConcatenateRule(const Attrs& attrs, const Array<Expr>& args, const Array<Type>& types) {
  const auto* data_types = types[0].as<TupleTypeNode>();
  auto field = [&](size_t arg, size_t i) -> Expr {
    const auto* tuple = args[arg].as<relay::TupleNode>();
    return tuple != nullptr ? tuple->fields[i] : Expr(relay::TupleGetItem(args[arg], static_cast<int>(i)));
  };
  const DataType dtype = DTypeOf(data_types->fields[0]);
  Array<Expr> parts;
  for (size_t i = 0; i < data_types->fields.size(); ++i) {
    const bool same = field(1, i).same_as(args[3]) && field(2, i).same_as(args[4]);
    parts.push_back(same ? field(0, i)
                         : Quotient(Dequantized(field(0, i), field(1, i), field(2, i)), args[3], args[4], dtype));
  }
  return MakeConcatenate(parts, attrs.as<ConcatenateAttrs>()->axis);
}

}  // namespace
}  // namespace qnn

void RegisterQnnArithmeticOps() {
  using namespace qnn;  // NOLINT(google-build-using-namespace)
  RegisterBinary("qnn.add", "add", "Sum of quantised tensors.");
  RegisterBinary("qnn.subtract", "subtract", "Difference of quantised tensors.");
  RegisterBinary("qnn.mul", "multiply", "Product of quantised tensors, element by element.");
  OpRegistration("qnn.concatenate")
      .Describe("Joins quantised tensors, each with its own scale and zero point.")
      .Arguments({{"data", "Tuple", "Quantised tensors"},
                  {"input_scales", "Tuple", "Scalars"},
                  {"input_zero_points", "Tuple", "Scalars"},
                  {"output_scale", "Tensor", "Scalar"},
                  {"output_zero_point", "Tensor", "Scalar"}})
      .AttrsType<ConcatenateAttrs>()
      .SupportLevel(11)
      .Relation(Rule<ConcatenateInfer>)
      .Set(relay::kQnnCanonicalize, relay::FLegalize(ConcatenateRule));
}

}  // namespace treadle::ops
