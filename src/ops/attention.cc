// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention (Vaswani et al. 2017, "Attention Is All You Need"): softmax(scale * Q K^T + mask) V.
// Of the scores, which are as many as queries times keys, only those of a block of queries exist at a time: see
// ops/schedule/cpu/attention.cc.
#include "ops/attention.h"

#include <limits>

#include "ops/infer.h"
#include "ops/macs.h"
#include "ops/packed.h"
#include "ops/te_util.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/attrs/attention.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/relay/layout.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(AttentionAttrs);

namespace {

using relay::CallNode;
using relay::Expr;
using relay::LaidOutCall;
using relay::LayoutArgs;
using tir::floordiv;
using tir::floormod;

/// Elements of a vector: partial results of sums and maxima.
constexpr int64_t kLanes = 16;

void CheckBatch(const InferContext& context, const TensorTypeNode* query, const TensorTypeNode* other, size_t batch) {
  for (size_t i = 0; i < batch; ++i) {
    if (!SameDim(query->shape[i], other->shape[i]) && !context.Equal(query->shape[i], other->shape[i])) {
      throw ShapeError(StrCat("the batches of ", TypeText(query), " and ", TypeText(other), " differ"));
    }
  }
}

void CheckMask(const InferContext& context, const TensorTypeNode* query, const PrimExpr& keys) {
  const auto* mask = context.Tensor(3, "mask");
  size_t rank = query->shape.size();
  bool fits = mask->shape.size() <= rank && !mask->shape.empty();
  for (size_t i = 0; fits && i < mask->shape.size(); ++i) {
    size_t d = rank - mask->shape.size() + i;
    PrimExpr full = d + 1 == rank ? keys : query->shape[d];
    bool one = DimValue(mask->shape[i]) == 1 && d + 1 != rank;
    fits = one || SameDim(mask->shape[i], full) || context.Equal(mask->shape[i], full);
  }
  if (!fits) throw ShapeError(StrCat("a mask ", TypeText(mask), " doesn't broadcast to queries times keys"));
}

void CheckInner(const InferContext& context, const PrimExpr& a, const PrimExpr& b, const char* what) {
  if (!SameDim(a, b) && !context.Equal(a, b)) throw ShapeError(StrCat("sizes of ", what, " differ"));
}

/// query (batch.., m, s), key (batch.., n, s), value (batch.., n, d), mask (..., n): (batch.., m, d).
Type AttentionInfer(const InferContext& context) {
  const auto *query = context.Tensor(0, "query"), *key = context.Tensor(1, "key"), *value = context.Tensor(2, "value");
  context.attrs<AttentionAttrs>();
  size_t rank = query->shape.size();
  if (rank < 2 || key->shape.size() != rank || value->shape.size() != rank) {
    throw ShapeError("query, key and value must have the same rank, at least 2");
  }
  if (query->dtype != DataType::Float(32)) throw DTypeError(StrCat("attention is of float32, not ", query->dtype));
  CheckBatch(context, query, key, rank - 2);
  CheckBatch(context, query, value, rank - 2);
  CheckInner(context, query->shape[rank - 1], key->shape[rank - 1], "queries and keys");
  CheckInner(context, key->shape[rank - 2], value->shape[rank - 2], "keys and values");
  CheckMask(context, query, key->shape[rank - 2]);
  Array<PrimExpr> out = query->shape;
  out.Set(rank - 1, value->shape[rank - 1]);
  return TensorType(out, query->dtype);
}

/// query (batch.., m, s), key (batch.., nb, s, 16), value (batch.., db, n, 16), mask (..., 16 nb), -inf where there is
/// no key: (batch.., m, 16 db).
Type PackedAttentionInfer(const InferContext& context) {
  const auto *query = context.Tensor(0, "query"), *key = context.Tensor(1, "key"), *value = context.Tensor(2, "value");
  context.attrs<AttentionAttrs>();
  size_t rank = query->shape.size();
  if (rank < 2 || key->shape.size() != rank + 1 || value->shape.size() != rank + 1) {
    throw ShapeError("packed keys and values must have one dimension more than queries");
  }
  CheckBatch(context, query, key, rank - 2);
  CheckBatch(context, query, value, rank - 2);
  CheckInner(context, query->shape[rank - 1], key->shape[rank - 1], "queries and keys");
  CheckMask(context, query, DimMul(key->shape[rank - 2], Dim(kPackedColumns)));
  Array<PrimExpr> out = query->shape;
  out.Set(rank - 1, DimMul(value->shape[rank - 2], Dim(kPackedColumns)));
  return TensorType(out, query->dtype);
}

/// `index` with its last entries replaced.
Array<PrimExpr> With(const Array<PrimExpr>& index, size_t keep, const std::vector<PrimExpr>& last) {
  Array<PrimExpr> result;
  for (size_t i = 0; i < keep; ++i) result.push_back(index[i]);
  for (const PrimExpr& e : last) result.push_back(e);
  return result;
}

/// Combines the lanes of values[i.., 0 .. lanes) pairwise.
template <typename Combine>
PrimExpr Tree(const Tensor& values, const Array<PrimExpr>& index, int64_t lanes, Combine combine) {
  std::vector<PrimExpr> parts;
  for (int64_t lane = 0; lane < lanes; ++lane) parts.push_back(values(With(index, index.size(), {Index(lane)})));
  while (parts.size() > 1) {
    std::vector<PrimExpr> half;
    for (size_t i = 0; i < parts.size() / 2; ++i) half.push_back(combine(parts[i], parts[i + parts.size() / 2]));
    parts = half;
  }
  return parts[0];
}

/// The stages after the products of queries and keys, which `products` gives. `keys` of them are scores of keys; all of
/// `product` (batch.., m, n') are looked at, so that those beyond must be masked.
Tensor FinishAttention(const Tensor& products, const Tensor& mask, double scale,
                       const std::function<Tensor(const Tensor& weights)>& mix) {
  size_t rank = products.ndim(), row = rank - 1;
  DataType dtype = products->dtype;
  Array<PrimExpr> shape = products->shape, rows = With(shape, row, {});
  Tensor scores = Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        return products(i) * tir::make_const(dtype, scale) + LoadBroadcast(mask, i, shape);
      },
      "attention_scores", "attention_scores");
  const int64_t columns = DimValue(shape[row]);
  const bool vectors = columns > 0 && columns % kLanes == 0;
  /// Reduces along the last dimension, by lanes where it is vectors.
  auto reduce = [&](const Tensor& x, const std::string& name, auto sum, auto combine) {
    if (!vectors) {
      te::IterVar k = te::ReduceAxis(tir::Range(shape[row]), "k");
      return Compute(rows, [&](const Array<PrimExpr>& i) { return sum(x(With(i, row, {k->var})), k); }, name, name);
    }
    te::IterVar k = te::ReduceAxis(tir::Range(Index(columns / kLanes)), "k");
    Tensor lanes = Compute(
        With(shape, row, {Index(kLanes)}),
        [&](const Array<PrimExpr>& i) { return sum(x(With(i, row, {k->var * Index(kLanes) + i[row]})), k); },
        name + "_lanes", name + "_lanes");
    return Compute(rows, [&](const Array<PrimExpr>& i) { return Tree(lanes, i, kLanes, combine); }, name, name);
  };
  Tensor max = reduce(
      scores, "attention_max", [](const PrimExpr& e, const te::IterVar& k) { return te::MaxReduce(e, {k}); },
      [](const PrimExpr& a, const PrimExpr& b) { return tir::max(a, b); });
  Tensor exp = Compute(
      shape, [&](const Array<PrimExpr>& i) { return tir::exp(scores(i) - max(With(i, row, {}))); }, "attention_exp",
      "attention_exp");
  Tensor sum = reduce(
      exp, "attention_sum", [](const PrimExpr& e, const te::IterVar& k) { return te::Sum(e, {k}); },
      [](const PrimExpr& a, const PrimExpr& b) { return a + b; });
  Tensor mixed = mix(exp);
  return Compute(
      mixed->shape, [&](const Array<PrimExpr>& i) { return tir::div(mixed(i), sum(With(i, row, {}))); },
      "attention_output", "attention_output");
}

Array<Tensor> PackedAttentionCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2];
  size_t rank = query.ndim(), batch = rank - 2;
  PrimExpr block = Index(kPackedColumns);
  te::IterVar s = te::ReduceAxis(tir::Range(query->shape[rank - 1]), "s");
  Array<PrimExpr> shape = query->shape;
  shape.Set(rank - 1, DimMul(key->shape[batch], Dim(kPackedColumns)));
  Tensor products = Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr n = i[rank - 1];
        return te::Sum(
            query(With(i, rank - 1, {s->var})) * key(With(i, batch, {floordiv(n, block), s->var, floormod(n, block)})),
            {s});
      },
      "attention_products", "attention_products");
  auto mix = [&](const Tensor& weights) {
    te::IterVar n = te::ReduceAxis(tir::Range(value->shape[rank - 1]), "n");
    return Compute(
        OutTensor(out_type)->shape,
        [&](const Array<PrimExpr>& i) {
          PrimExpr d = i[rank - 1];
          return te::Sum(weights(With(i, rank - 1, {n->var})) *
                             value(With(i, batch, {floordiv(d, block), n->var, floormod(d, block)})),
                         {n});
        },
        "attention_mixed", "attention_mixed");
  };
  return {FinishAttention(products, inputs[3], attrs.as<AttentionAttrs>()->scale, mix)};
}

Array<Tensor> AttentionCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2];
  size_t rank = query.ndim(), batch = rank - 2;
  Array<PrimExpr> shape = query->shape;
  shape.Set(rank - 1, key->shape[batch]);
  const int64_t size = DimValue(query->shape[rank - 1]);
  const int64_t lanes = size > 0 && size % kLanes == 0 ? kLanes : size > 0 && size % 8 == 0 ? 8 : 1;
  // Sums along contiguous memory, by lanes.
  te::IterVar s = te::ReduceAxis(tir::Range(tir::floordiv(query->shape[rank - 1], Index(lanes))), "s");
  Array<PrimExpr> by_lane = shape;
  by_lane.push_back(Index(lanes));
  Tensor dots = Compute(
      by_lane,
      [&](const Array<PrimExpr>& i) {
        PrimExpr at = s->var * Index(lanes) + i[rank];
        return te::Sum(query(With(i, rank - 1, {at})) * key(With(i, batch, {i[rank - 1], at})), {s});
      },
      "attention_dots", "attention_dots");
  Tensor products = Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        return Tree(dots, i, lanes, [](const PrimExpr& a, const PrimExpr& b) { return a + b; });
      },
      "attention_products", "attention_products");
  auto mix = [&](const Tensor& weights) {
    te::IterVar n = te::ReduceAxis(tir::Range(value->shape[batch]), "n");
    return Compute(
        OutTensor(out_type)->shape,
        [&](const Array<PrimExpr>& i) {
          return te::Sum(weights(With(i, rank - 1, {n->var})) * value(With(i, batch, {n->var, i[rank - 1]})), {n});
        },
        "attention_mixed", "attention_mixed");
  };
  return {FinishAttention(products, inputs[3], attrs.as<AttentionAttrs>()->scale, mix)};
}

/// Rows are padded to tiles, at most so many in each.
int64_t RowTile(int64_t rows) {
  int64_t best = 6;
  for (int64_t t : {5, 4}) {
    if ((rows + t - 1) / t * t < (rows + best - 1) / best * best) best = t;
  }
  return best;
}

Expr PadDim(const Expr& data, size_t rank, size_t dim, int64_t missing, double value) {
  if (missing == 0) return data;
  std::vector<std::pair<int64_t, int64_t>> widths(rank, {0, 0});
  widths[dim] = {0, missing};
  return MakePad(data, widths, ScalarConstant(DataType::Float(32), value));
}

/// With some rows packing keys and values takes less time than it saves.
std::optional<LaidOutCall> AttentionLayoutRule(const CallNode* call, LayoutArgs& args) {
  constexpr int64_t kLeastRows = 4;
  const auto *query = args.Type(0), *key = args.Type(1), *value = args.Type(2), *mask = args.Type(3);
  for (const auto* type : {query, key, value, mask}) {
    if (type == nullptr || !IsStatic(type) || NumElements(StaticShape(type, "attention")) == 0) return std::nullopt;
  }
  size_t rank = query->shape.size(), masked = mask->shape.size();
  int64_t rows = DimValue(query->shape[rank - 2]), keys = DimValue(key->shape[rank - 2]);
  int64_t size = DimValue(value->shape[rank - 1]);
  if (rows < kLeastRows || rank > 8) return std::nullopt;
  const int64_t tile = RowTile(rows), rows_missing = (tile - rows % tile) % tile;
  const int64_t keys_missing = (kPackedColumns - keys % kPackedColumns) % kPackedColumns;
  Expr mask_arg = args.Get(3, "");
  if (rows_missing != 0 && masked >= 2 && DimValue(mask->shape[masked - 2]) == rows) {
    mask_arg = PadDim(mask_arg, masked, masked - 2, rows_missing, 0);
  }
  mask_arg = PadDim(mask_arg, masked, masked - 1, keys_missing, -std::numeric_limits<double>::infinity());
  Expr result = CallOp("nn.contrib_packed_attention",
                       {PadDim(args.Get(0, ""), rank, rank - 2, rows_missing, 0),
                        PackColumns(args.Get(1, ""), key, false), PackColumns(args.Get(2, ""), value, true), mask_arg},
                       call->attrs, call->span);
  if (rows_missing != 0 || size % kPackedColumns != 0) {
    std::vector<int64_t> begin(rank, 0), end;
    for (const PrimExpr& dim : query->shape) end.push_back(DimValue(dim));
    end.back() = size;
    result = MakeStridedSlice(result, begin, end);
  }
  return LaidOutCall{result, ""};
}

/// The scores and their product with the values.
double AttentionMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  double keys = DimOf(arguments[1], -2);
  return keys * (Elements(ShapeOf(arguments[0])) + Elements(ShapeOf(result)));
}
double PackedAttentionMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  double keys = DimOf(arguments[1], -3) * kPackedColumns;
  return keys * (Elements(ShapeOf(arguments[0])) + Elements(ShapeOf(result)));
}

OpRegistration Attention(const char* name, const char* text) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"query", "Tensor", "Queries."},
                  {"key", "Tensor", "Keys."},
                  {"value", "Tensor", "Values."},
                  {"mask", "Tensor", "What is added to the scores; broadcast, but for its last dimension."}})
      .AttrsType<AttentionAttrs>()
      .SupportLevel(10)
      .Set(kOpPattern, OpPatternKind::kOpaque);
}

}  // namespace

void RegisterAttentionOps() {
  Attention("nn.attention", "softmax(scale * query key^T + mask) value, of float32.")
      .Relation(Rule<AttentionInfer>)
      .Set(relay::kLayoutRule, relay::FLayoutRule(AttentionLayoutRule))
      .Set(relay::kMacCount, relay::FMacCount(AttentionMacs))
      .Set(kCompute, FTECompute(AttentionCompute));
  Attention("nn.contrib_packed_attention",
            "Attention with packed keys (.., n / 16, s, 16) and values (.., d / 16, n, 16).")
      .Relation(Rule<PackedAttentionInfer>)
      .Set(relay::kMacCount, relay::FMacCount(PackedAttentionMacs))
      .Set(kCompute, FTECompute(PackedAttentionCompute));
}

}  // namespace treadle::ops
