// SPDX-License-Identifier: Apache-2.0
// Matrix products. nn.dense is the fully connected layer with a transposed weight; nn.matmul and nn.batch_matmul say
// which operands are transposed. Batch dimensions are broadcast as in ONNX MatMul.
#include "ops/conv.h"
#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "ops/macs.h"
#include "ops/taken_matrices.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(DenseAttrs);
TREADLE_DEFINE_NODE(MatmulAttrs);
TREADLE_DEFINE_NODE(BatchMatmulAttrs);
TREADLE_DEFINE_NODE(DensePackAttrs);

namespace {

DataType MatmulOutDType(const TensorTypeNode* a, const TensorTypeNode* b, DataType out) {
  // Weights of 16 bits are widened as they are read.
  const bool stored_narrow = a->dtype == DataType::Float(32) && (b->dtype.is_float16() || b->dtype.is_bfloat16());
  if (a->dtype != b->dtype && !stored_narrow && (!a->dtype.is_integral() || !b->dtype.is_integral())) {
    CheckSameDType(a, b);
  }
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

/// Sum over k of a(.., m, k) b(.., n, k), each with its last two dimensions swapped where so asked.
Array<Tensor> MatmulTensor(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
                           const TensorTypeNode* out, const std::string& name) {
  DataType dtype = AccumulatorDType(out->dtype);
  te::IterVar k = te::ReduceAxis(tir::Range(a->shape[transpose_a ? a.ndim() - 2 : a.ndim() - 1]), "k");
  size_t rank = out->shape.size();
  /// Index into `t` whose last two are (row, k); leading ones are broadcast.
  auto index = [&](const Tensor& t, const Array<PrimExpr>& i, const PrimExpr& row, bool k_first) {
    Array<PrimExpr> at;
    size_t matrix = t.ndim() >= 2 ? 2 : 1;
    size_t leading = t.ndim() - matrix;
    for (size_t d = 0; d < leading; ++d) {
      PrimExpr dim = t->shape[d];
      size_t o = d + rank - 2 - leading;
      PrimExpr full = i[o];
      if (DimValue(dim) == 1 && DimValue(out->shape[o]) != 1) full = Index(0);
      at.push_back(full);
    }
    if (matrix == 1) {
      at.push_back(k->var);
    } else {
      at.push_back(k_first ? PrimExpr(k->var) : row);
      at.push_back(k_first ? row : PrimExpr(k->var));
    }
    return at;
  };
  Tensor sum = Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr row = rank >= 2 ? i[rank - 2] : Index(0);
        PrimExpr x = a(index(a, i, row, transpose_a));
        PrimExpr y = b(index(b, i, i[rank - 1], !transpose_b));
        return te::Sum(tir::cast(dtype, x) * tir::cast(dtype, y), {k});
      },
      name, name);
  return {CastTo(sum, out->dtype, name + "_cast")};
}

Array<Tensor> DenseCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  return MatmulTensor(inputs[0], inputs[1], false, true, OutTensor(out_type), tag::kDense);
}
Array<Tensor> MatmulCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<MatmulAttrs>();
  return MatmulTensor(inputs[0], inputs[1], a->transpose_a, a->transpose_b, OutTensor(out_type), tag::kMatmul);
}
Array<Tensor> BatchMatmulCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<BatchMatmulAttrs>();
  return MatmulTensor(inputs[0], inputs[1], a->transpose_a, a->transpose_b, OutTensor(out_type), tag::kBatchMatmul);
}

/// data (m, k), weight (units / b, k, b) of layout NC<b>n
int64_t PackedBlock(const DensePackAttrs* attrs) {
  Layout layout(attrs->weight_layout);
  if (layout.ndim() != 3 || layout[0].name != 'N' || layout[1].name != 'C' || layout[2].name != 'n') {
    throw ShapeError(StrCat("weight_layout must be like NC8n, not \"", layout, "\""));
  }
  return layout[2].factor;
}

Type DensePackInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* weight = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<DensePackAttrs>();
  CheckRank(data, 2, "data");
  CheckRank(weight, 3, "weight");
  int64_t block = PackedBlock(attrs);
  if (DimValue(weight->shape[2]) != block)
    throw ShapeError(StrCat("the weight's blocks must have ", block, " columns"));
  CheckInner(context, data->shape[1], weight->shape[1], data, weight);
  return TensorType({data->shape[0], DimMul(weight->shape[0], Dim(block))},
                    MatmulOutDType(data, weight, attrs->out_dtype));
}

Array<Tensor> DensePackCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  PrimExpr block = Index(PackedBlock(attrs.as<DensePackAttrs>()));
  const TensorTypeNode* out = OutTensor(out_type);
  DataType dtype = AccumulatorDType(out->dtype);
  te::IterVar k = te::ReduceAxis(tir::Range(inputs[0]->shape[1]), "k");
  Tensor sum = Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr w = inputs[1](tir::indexdiv(i[1], block), k->var, tir::indexmod(i[1], block));
        return te::Sum(tir::cast(dtype, inputs[0](i[0], k->var)) * tir::cast(dtype, w), {k});
      },
      "dense_pack", "dense_pack");
  return {CastTo(sum, out->dtype, "dense_pack_cast")};
}

double DenseMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * DimOf(arguments[0], -1);
}
template <typename AttrsT>
double MatmulMacs(const Attrs& attrs, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * DimOf(arguments[0], attrs.as<AttrsT>()->transpose_a ? -2 : -1);
}

}  // namespace

void RegisterDenseOps() {
  OpRegistration("nn.dense")
      .Describe("data times the transposed weight.")
      .Arguments({{"data", "Tensor", "(.., k)"}, {"weight", "Tensor", "(units, k)"}})
      .AttrsType<DenseAttrs>()
      .SupportLevel(1)
      .Relation(Rule<DenseInfer, 1>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(DenseMacs))
      .Set(kCompute, FTECompute(DenseCompute))
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kAlways)
      .Set(kGradient, FGradient(gradient::OfDense));
  OpRegistration("nn.contrib_dense_pack")
      .Describe("data times a weight packed in blocks of columns.")
      .Arguments({{"data", "Tensor", "(m, k)"}, {"weight", "Tensor", "(units / block, k, block)"}})
      .AttrsType<DensePackAttrs>()
      .SupportLevel(10)
      .Relation(Rule<DensePackInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(DenseMacs))
      .Set(kCompute, FTECompute(DensePackCompute));
  OpRegistration("nn.matmul")
      .Describe("Matrix product.")
      .Arguments({{"tensor_a", "Tensor", "(.., m, k)"}, {"tensor_b", "Tensor", "(k, n)"}})
      .AttrsType<MatmulAttrs>()
      .SupportLevel(1)
      .Relation(Rule<MatmulInfer, 1>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(MatmulMacs<MatmulAttrs>))
      .Set(kCompute, FTECompute(MatmulCompute))
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kAlways)
      .Set(kGradient, FGradient(gradient::OfMatmul));
  OpRegistration("nn.batch_matmul")
      .Describe("Matrix product of each batch.")
      .Arguments({{"tensor_a", "Tensor", "(.., m, k)"}, {"tensor_b", "Tensor", "(.., n, k)"}})
      .AttrsType<BatchMatmulAttrs>()
      .SupportLevel(10)
      .Relation(Rule<BatchMatmulInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kCallPattern, relay::FCallPattern(PatternOfProduct))
      .Set(relay::kMacCount, relay::FMacCount(MatmulMacs<BatchMatmulAttrs>))
      .Set(kCompute, FTECompute(BatchMatmulCompute))
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kAlways)
      .Set(kGradient, FGradient(gradient::OfBatchMatmul));
}

}  // namespace treadle::ops
