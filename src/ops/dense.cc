// SPDX-License-Identifier: Apache-2.0
// Matrix products. nn.dense is the fully connected layer with a transposed weight; nn.matmul and nn.batch_matmul say
// which operands are transposed. Batch dimensions are broadcast as in ONNX MatMul.
#include "ops/conv.h"
#include "ops/families.h"
#include "ops/infer.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

DataType MatmulOutDType(const TensorTypeNode* a, const TensorTypeNode* b, DataType out) {
  if (a->dtype != b->dtype && (!a->dtype.is_integral() || !b->dtype.is_integral())) CheckSameDType(a, b);
  return ConvOutDType(a->dtype, out);
}

void CheckInner(const InferContext& context, const PrimExpr& a, const PrimExpr& b, const TensorTypeNode* lhs,
                const TensorTypeNode* rhs) {
  if (SameDim(a, b)) return;
  if ((AsConstInt(a) != nullptr && AsConstInt(b) != nullptr) || !context.Equal(a, b)) {
    throw ShapeError(
        StrCat("the inner dimensions of ", ShapeText(lhs->shape), " and ", ShapeText(rhs->shape), " differ"));
  }
}

/// data (.., k), weight (units, k).
Type DenseInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<DenseAttrs>();
  if (data->shape.empty()) throw ShapeError("data must have at least 1 dimension");
  PrimExpr units;
  if (IsKnown(context.type(1))) {
    const auto* weight = context.Tensor(1, "weight");
    CheckRank(weight, 2, "weight");
    MatmulOutDType(data, weight, attrs->out_dtype);
    CheckInner(context, data->shape.back(), weight->shape[1], data, weight);
    units = weight->shape[0];
    if (attrs->units.has_value() && !SameDim(units, Dim(*attrs->units)) && !context.Equal(units, Dim(*attrs->units))) {
      throw ShapeError(StrCat("units is ", *attrs->units, ", the weight is ", TypeText(weight)));
    }
  } else {
    if (!attrs->units.has_value()) return Type();
    units = Dim(*attrs->units);
    context.Expect(1, TensorType({units, data->shape.back()}, data->dtype));
  }
  Array<PrimExpr> out = data->shape;
  out.Set(out.size() - 1, units);
  return TensorType(out, ConvOutDType(data->dtype, attrs->out_dtype));
}

/// tensor_a (.., m, k) or (.., k, m), tensor_b (k, n) or (n, k).
Type MatmulInfer(const InferContext& context) {
  const auto* a = context.Tensor(0, "tensor_a");
  const auto* attrs = context.attrs<MatmulAttrs>();
  size_t rank = a->shape.size();
  if (rank == 0 || (attrs->transpose_a && rank < 2)) throw ShapeError("tensor_a has too few dimensions");
  PrimExpr k = a->shape[attrs->transpose_a ? rank - 2 : rank - 1];
  PrimExpr n;
  if (IsKnown(context.type(1))) {
    const auto* b = context.Tensor(1, "tensor_b");
    CheckRank(b, 2, "tensor_b");
    MatmulOutDType(a, b, attrs->out_dtype);
    CheckInner(context, k, b->shape[attrs->transpose_b ? 1 : 0], a, b);
    n = b->shape[attrs->transpose_b ? 0 : 1];
    if (attrs->units.has_value() && AsConstInt(n) != nullptr && DimValue(n) != *attrs->units) {
      throw ShapeError(StrCat("units is ", *attrs->units, ", tensor_b is ", TypeText(b)));
    }
  } else {
    if (!attrs->units.has_value()) return Type();
    n = Dim(*attrs->units);
    Array<PrimExpr> shape = attrs->transpose_b ? Array<PrimExpr>{n, k} : Array<PrimExpr>{k, n};
    context.Expect(1, TensorType(shape, a->dtype));
  }
  Array<PrimExpr> out = a->shape;
  if (attrs->transpose_a) out.Set(rank - 2, a->shape[rank - 1]);
  out.Set(rank - 1, n);
  return TensorType(out, ConvOutDType(a->dtype, attrs->out_dtype));
}

Type BatchMatmulInfer(const InferContext& context) {
  const auto* a = context.Tensor(0, "tensor_a");
  const auto* b = context.Tensor(1, "tensor_b");
  const auto* attrs = context.attrs<BatchMatmulAttrs>();
  size_t rank_a = a->shape.size();
  size_t rank_b = b->shape.size();
  if (rank_a < 3 || rank_b < 3) {
    throw ShapeError(StrCat("operands must have at least 3 dimensions, not ", TypeText(a), " and ", TypeText(b)));
  }
  DataType dtype = MatmulOutDType(a, b, attrs->out_dtype);
  PrimExpr m = a->shape[attrs->transpose_a ? rank_a - 1 : rank_a - 2];
  PrimExpr k = a->shape[attrs->transpose_a ? rank_a - 2 : rank_a - 1];
  PrimExpr n = b->shape[attrs->transpose_b ? rank_b - 2 : rank_b - 1];
  CheckInner(context, k, b->shape[attrs->transpose_b ? rank_b - 1 : rank_b - 2], a, b);
  Array<PrimExpr> batch_a, batch_b;
  for (size_t i = 0; i + 2 < rank_a; ++i) batch_a.push_back(a->shape[i]);
  for (size_t i = 0; i + 2 < rank_b; ++i) batch_b.push_back(b->shape[i]);
  Array<PrimExpr> out = BroadcastShape(context, batch_a, batch_b);
  out.push_back(m);
  out.push_back(n);
  return TensorType(out, dtype);
}

}  // namespace

void RegisterDenseOps() {
  OpRegistration("nn.dense")
      .Describe("data times the transposed weight.")
      .Arguments({{"data", "Tensor", "(.., k)"}, {"weight", "Tensor", "(units, k)"}})
      .AttrsType<DenseAttrs>()
      .SupportLevel(1)
      .Relation(Rule<DenseInfer, 1>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable);
  OpRegistration("nn.matmul")
      .Describe("Matrix product.")
      .Arguments({{"tensor_a", "Tensor", "(.., m, k)"}, {"tensor_b", "Tensor", "(k, n)"}})
      .AttrsType<MatmulAttrs>()
      .SupportLevel(1)
      .Relation(Rule<MatmulInfer, 1>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable);
  OpRegistration("nn.batch_matmul")
      .Describe("Matrix product of each batch.")
      .Arguments({{"tensor_a", "Tensor", "(.., m, k)"}, {"tensor_b", "Tensor", "(.., n, k)"}})
      .AttrsType<BatchMatmulAttrs>()
      .SupportLevel(10)
      .Relation(Rule<BatchMatmulInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable);
}

}  // namespace treadle::ops
