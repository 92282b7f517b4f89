// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention (Vaswani et al. 2017, "Attention Is All You Need"): softmax(scale * Q K^T + mask) V.
// Of the scores, which are as many as queries times keys, only those of a block of queries exist at a time in the
// kernels of targets (targets/cpu/kernels/attention.cc).
#include "ops/attention.h"

#include "ops/macs.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ops/attrs/attention.h"
#include "treadle/ops/compute.h"
#include "treadle/te/stage.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(AttentionAttrs);

namespace {

/// Elements of a vector: partial results of sums and maxima.
constexpr int64_t kLanes = 16;

/// Vectors of partial results, which don't wait for each other, of a row of `n`.
int64_t VectorsAtOnce(const PrimExpr& n, arith::Analyzer& analyzer) {
  const int64_t known = DimValue(n);
  for (const int64_t count : {4, 2}) {
    const bool several = known < 0 || known > count * kLanes;
    if (several && analyzer.CanProveEqual(tir::floormod(n, Index(count * kLanes)), 0)) return count;
  }
  return 1;
}

constexpr const char* kPlain = "attention.plain";
const DataType kSum = DataType::Float(32);

/// Combines values[i.., lane] pairwise, of `lanes` that are `step` apart from `first` on.
template <typename Combine>
PrimExpr Tree(const Tensor& values, const Array<PrimExpr>& index, int64_t lanes, Combine combine,
              const PrimExpr& first = Index(0), int64_t step = 1) {
  std::vector<PrimExpr> parts;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    parts.push_back(values(ReplaceLast(index, values.ndim() - 1, {first + Index(lane * step)})));
  }
  while (parts.size() > 1) {
    std::vector<PrimExpr> half;
    for (size_t i = 0; i < parts.size() / 2; ++i) half.push_back(combine(parts[i], parts[i + parts.size() / 2]));
    parts = half;
  }
  return parts[0];
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
  Tensor dots = te::ComputeStage(
      by_lane,
      [&](const Array<PrimExpr>& i) {
        PrimExpr at = s->var * Index(lanes) + i[rank];
        const PrimExpr q = query(ReplaceLast(i, rank - 1, {at})), k = key(ReplaceLast(i, batch, {i[rank - 1], at}));
        return te::Sum(tir::cast(kSum, q) * tir::cast(kSum, k), {s});
      },
      "attention_dots", te::StageAttrs(kPlain, "dots"));
  Tensor products = te::ComputeStage(
      shape,
      [&](const Array<PrimExpr>& i) {
        return Tree(dots, i, lanes, [](const PrimExpr& a, const PrimExpr& b) { return a + b; });
      },
      "attention_products", te::StageAttrs(kPlain, "products"));
  const auto& options = *attrs.as<AttentionAttrs>();
  auto mask = [&](const Array<PrimExpr>& i) { return LoadBroadcast(inputs[3], i, shape); };
  const SoftmaxStages softmax = SoftmaxOfScores(products, mask, options, kPlain);
  te::IterVar n = te::ReduceAxis(tir::Range(value->shape[batch]), "n");
  const Tensor mixed = te::ComputeStage(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        const PrimExpr v = value(ReplaceLast(i, batch, {n->var, i[rank - 1]}));
        return te::Sum(softmax.exp(ReplaceLast(i, rank - 1, {n->var})) * tir::cast(kSum, v), {n});
      },
      "attention_mixed", te::StageAttrs(kPlain, "mixed"));
  return {DivideBySums(mixed, softmax.sum, options, te::StageAttrs(kPlain, te::kAnchor))};
}

/// The scores and their product with the values.
double AttentionMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  double keys = DimOf(arguments[1], -2);
  return keys * (Elements(ShapeOf(arguments[0])) + Elements(ShapeOf(result)));
}

}  // namespace

Type AttentionInfer(const InferContext& context) {
  const auto *query = context.Tensor(0, "query"), *key = context.Tensor(1, "key"), *value = context.Tensor(2, "value");
  context.attrs<AttentionAttrs>();
  size_t rank = query->shape.size();
  if (rank < 2 || key->shape.size() != rank || value->shape.size() != rank) {
    throw ShapeError("query, key and value must have the same rank, at least 2");
  }
  const bool floats = query->dtype == DataType::Float(32) || query->dtype.is_bfloat16();
  if (!floats || key->dtype != query->dtype || value->dtype != query->dtype) {
    throw DTypeError(
        StrCat("attention is of float32 or bfloat16, not ", query->dtype, ", ", key->dtype, " and ", value->dtype));
  }
  CheckAttentionBatch(context, query, key, rank - 2);
  CheckAttentionBatch(context, query, value, rank - 2);
  CheckAttentionInner(query->shape[rank - 1], key->shape[rank - 1], "queries and keys", context);
  CheckAttentionInner(key->shape[rank - 2], value->shape[rank - 2], "keys and values", context);
  CheckAttentionMask(context, query, key->shape[rank - 2]);
  Array<PrimExpr> out = query->shape;
  out.Set(rank - 1, value->shape[rank - 1]);
  return TensorType(out, kSum);
}

void CheckAttentionBatch(const InferContext& context, const TensorTypeNode* query, const TensorTypeNode* other,
                         size_t batch) {
  for (size_t i = 0; i < batch; ++i) {
    if (!SameDim(query->shape[i], other->shape[i]) && !context.Equal(query->shape[i], other->shape[i])) {
      throw ShapeError(StrCat("the batches of ", TypeText(query), " and ", TypeText(other), " differ"));
    }
  }
}

void CheckAttentionMask(const InferContext& context, const TensorTypeNode* query, const PrimExpr& keys) {
  const auto* mask = context.Tensor(3, "mask");
  size_t rank = query->shape.size();
  bool fits = mask->shape.size() <= rank && !mask->shape.empty();
  for (size_t i = 0; fits && i < mask->shape.size(); ++i) {
    size_t d = rank - mask->shape.size() + i;
    PrimExpr full = d + 1 == rank ? keys : query->shape[d];
    const bool known = AsConstInt(mask->shape[i]) != nullptr && AsConstInt(full) != nullptr;
    fits = !known || DimValue(mask->shape[i]) == 1 || SameDim(mask->shape[i], full);
    RequireBroadcast(context, mask->shape[i], full);
  }
  if (!fits) throw ShapeError(StrCat("a mask ", TypeText(mask), " doesn't broadcast to queries times keys"));
}

void CheckAttentionInner(const PrimExpr& a, const PrimExpr& b, const char* what, const InferContext& context) {
  if (!SameDim(a, b) && !context.Equal(a, b)) throw ShapeError(StrCat("sizes of ", what, " differ"));
}

Array<PrimExpr> ReplaceLast(const Array<PrimExpr>& index, size_t keep, const std::vector<PrimExpr>& last) {
  Array<PrimExpr> result;
  for (size_t i = 0; i < keep; ++i) result.push_back(index[i]);
  for (const PrimExpr& e : last) result.push_back(e);
  return result;
}

SoftmaxStages SoftmaxOfScores(const Tensor& products, const std::function<PrimExpr(const Array<PrimExpr>&)>& mask,
                              const AttentionAttrs& attrs, const std::string& kernel, bool is_part,
                              const std::function<PrimExpr(const PrimExpr&)>& round) {
  size_t rank = products.ndim(), row = rank - 1;
  DataType dtype = products->dtype;
  Array<PrimExpr> shape = products->shape, rows = ReplaceLast(shape, row, {});
  Tensor scores = te::ComputeStage(
      shape, [&](const Array<PrimExpr>& i) { return products(i) * tir::make_const(dtype, attrs.scale) + mask(i); },
      "attention_scores", te::StageAttrs(kernel, "scores"));
  arith::Analyzer analyzer;
  const bool vectors = DimValue(shape[row]) != 0 && analyzer.CanProveEqual(tir::floormod(shape[row], Index(kLanes)), 0);
  /// Reduces along the last dimension, by lanes where it is vectors.
  auto reduce = [&](const Tensor& x, const std::string& name, auto sum, auto combine) {
    if (!vectors) {
      te::IterVar k = te::ReduceAxis(tir::Range(shape[row]), "k");
      return te::ComputeStage(
          rows, [&](const Array<PrimExpr>& i) { return sum(x(ReplaceLast(i, row, {k->var})), k); }, "attention_" + name,
          te::StageAttrs(kernel, name));
    }
    auto along = [&](int64_t width, const std::string& role) {
      te::IterVar k = te::ReduceAxis(tir::Range(analyzer.Simplify(tir::floordiv(shape[row], Index(width)))), "k");
      return te::ComputeStage(
          ReplaceLast(shape, row, {Index(width)}),
          [&](const Array<PrimExpr>& i) { return sum(x(ReplaceLast(i, row, {k->var * Index(width) + i[row]})), k); },
          "attention_" + role, te::StageAttrs(kernel, role));
    };
    const int64_t count = VectorsAtOnce(shape[row], analyzer);
    Tensor lanes = along(count * kLanes, name + (count > 1 ? "_parts" : "_lanes"));
    if (count > 1) {
      lanes = te::ComputeStage(
          ReplaceLast(shape, row, {Index(kLanes)}),
          [&](const Array<PrimExpr>& i) { return Tree(lanes, i, count, combine, i[row], kLanes); },
          "attention_" + name + "_lanes", te::StageAttrs(kernel, name + "_lanes"));
    }
    return te::ComputeStage(
        rows, [&](const Array<PrimExpr>& i) { return Tree(lanes, i, kLanes, combine); }, "attention_" + name,
        te::StageAttrs(kernel, name));
  };
  Tensor max =
      reduce(scores, "max", [](const PrimExpr& e, const te::IterVar& k) { return GreatestOf(e, k); }, GreaterOf);
  const PrimExpr none = tir::neg_infinity(dtype);
  auto shift = [&](const Array<PrimExpr>& i) {
    const PrimExpr most = max(ReplaceLast(i, row, {}));
    return is_part ? tir::select(tir::equal(most, none), tir::make_zero(dtype), most) : most;
  };
  Tensor exp = te::ComputeStage(
      shape,
      [&](const Array<PrimExpr>& i) {
        const PrimExpr e = ExpUpToOne(scores(i) - shift(i));
        return round ? round(e) : e;
      },
      "attention_exp", te::StageAttrs(kernel, "exp"));
  Tensor sum = reduce(
      exp, "sum", [&](const PrimExpr& e, const te::IterVar& k) { return te::Sum(tir::cast(dtype, e), {k}); },
      [](const PrimExpr& a, const PrimExpr& b) { return a + b; });
  return {max, exp, sum};
}

Tensor DivideBySums(const Tensor& mixed, const Tensor& sum, const AttentionAttrs& attrs,
                    const Map<String, ObjectRef>& anchor) {
  const size_t row = mixed.ndim() - 1;
  return te::ComputeStage(
      mixed->shape,
      [&](const Array<PrimExpr>& i) {
        const PrimExpr total = sum(ReplaceLast(i, row, {})), zero = tir::make_zero(mixed->dtype);
        // Of no keys at all the products with values are 0, and so is their sum.
        const PrimExpr some = tir::select(tir::equal(total, zero), tir::make_const(mixed->dtype, 1), total);
        const PrimExpr result = tir::div(mixed(i), some);
        return attrs.zero_masked_rows ? tir::select(tir::isnan(total), zero, result) : result;
      },
      "attention_output", anchor);
}

OpRegistration AttentionOp(const char* name, const char* text) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"query", "Tensor", "Queries."},
                  {"key", "Tensor", "Keys."},
                  {"value", "Tensor", "Values."},
                  {"mask", "Tensor", "What is added to the scores; broadcast."}})
      .AttrsType<AttentionAttrs>()
      .SupportLevel(10)
      .Set(kOpPattern, OpPatternKind::kOpaque);
}

void RegisterAttentionOps() {
  AttentionOp("nn.attention", "softmax(scale * query key^T + mask) value, in float32; of float32 or bfloat16.")
      .Relation(Rule<AttentionInfer>)
      .Set(relay::kMacCount, relay::FMacCount(AttentionMacs))
      .Set(kCompute, FTECompute(AttentionCompute));
}

}  // namespace treadle::ops
