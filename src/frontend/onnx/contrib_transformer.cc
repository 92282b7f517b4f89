// SPDX-License-Identifier: Apache-2.0
// com.microsoft operators of transformers: normalisations with a residual, rotary embedding, attention.
#include <cmath>
#include <limits>
#include <optional>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/compose.h"
#include "frontend/onnx/contrib.h"
#include "frontend/onnx/group_query_attention.h"
#include "frontend/onnx/matmul.h"
#include "treadle/ir/structural.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

Expr Mul(NodeImport& n, const Expr& a, const Expr& b) { return n.Call("multiply", {a, b}); }
Expr Add(NodeImport& n, const Expr& a, const Expr& b) { return n.Call("add", {a, b}); }

/// x / sqrt(mean(x^2) + epsilon) * gamma over the last dimension, or, centred, layer normalisation.
Expr Normalised(NodeImport& n, Expr x, const Expr& gamma, double epsilon, bool centred) {
  const DataType dtype = TypeOf(x)->dtype, f32 = DataType::Float(32);
  const AttrList last{{"axis", Ints{RankOf(x) - 1}}, {"keepdims", true}};
  x = n.Cast(x, f32);
  if (centred) x = n.Call("subtract", {x, n.Call("mean", {x}, last)});
  Expr variance = n.Call("mean", {Mul(n, x, x)}, last);
  Expr root = n.Call("sqrt", {Add(n, variance, n.Scalar(f32, epsilon))});
  return Mul(n, n.Cast(n.Call("divide", {x, root}), dtype), gamma);
}

/// Input 0 and input 1, which may have fewer dimensions or a batch of 1.
Expr WithSkip(NodeImport& n) {
  const Term x = In(n, 0);
  return Add(n, x, WithinShape(In(n, 1), x, "the skip"));
}

/// input, skip, gamma, bias; outputs: result, mean, inverse deviation, sum.
std::vector<Expr> ImportSkipSimplifiedLayerNormalization(NodeImport& n) {
  Expr sum = WithSkip(n);
  const Term x = In(n, 0);
  if (n.Has(3)) sum = Add(n, sum, WithinShape(In(n, 3), x, "the bias"));
  return {Normalised(n, sum, WithinShape(In(n, 2), x, "gamma"), n.Float("epsilon", 1e-12), false), Expr(), Expr(), sum};
}

/// input, skip, gamma, beta, bias; outputs as above.
std::vector<Expr> ImportSkipLayerNormalization(NodeImport& n) {
  Expr sum = WithSkip(n);
  const Term x = In(n, 0);
  if (n.Has(4)) sum = Add(n, sum, WithinShape(In(n, 4), x, "the bias"));
  Expr y = Normalised(n, sum, WithinShape(In(n, 2), x, "gamma"), n.Float("epsilon", 1e-12), true);
  if (n.Has(3)) y = Add(n, y, WithinShape(In(n, 3), x, "beta"));
  return {y, Expr(), Expr(), sum};
}

Expr ImportSimplifiedLayerNormalization(NodeImport& n) {
  n.Ignore({"stash_type"});
  if (n.Axis(n.Int("axis", -1), n.Rank(0)) != n.Rank(0) - 1) n.Unsupported("'axis' other than -1 isn't implemented");
  return Normalised(n, n.In(0), WithinShape(In(n, 1), In(n, 0), "the scale"), n.Float("epsilon", 1e-5), false);
}

/// ids, segment ids, tables of words, positions and segments, gamma, beta, mask, position ids; outputs: result, number
/// of unmasked positions (0 without a mask, as ONNX Runtime has it), sum of the embeddings.
std::vector<Expr> ImportEmbedLayerNormalization(NodeImport& n) {
  n.Ignore({"mask_index_type"});
  if (n.Rank(0) != 2) n.Invalid(StrCat("'input_ids' has rank ", n.Rank(0), ", expected 2"));
  auto rows = [&](size_t table, const Expr& ids) { return PickedRows(n, n.In(table), ids, "index of an embedding"); };
  Expr sum = rows(2, n.In(0));
  if (n.Has(8)) {
    sum = Add(n, sum, rows(3, n.In(8)));
  } else {
    sum = Add(n, sum, SliceAxis(In(n, 3), 0, IntNum(n, 0), DimOf(In(n, 0), 1)));
  }
  if (n.Has(1) && n.Has(4)) sum = Add(n, sum, rows(4, n.In(1)));
  Expr y = Add(n, Normalised(n, sum, n.In(5), n.Float("epsilon", 1e-12), true), n.In(6));
  Expr count = n.Call("sum", {n.Cast(n.In(n.Has(7) ? 7 : 0), DataType::Int(32))}, {{"axis", Ints{1}}});
  if (!n.Has(7)) count = n.Call("zeros_like", {count});
  return {y, count, sum};
}

Expr Joined(NodeImport& n, const Expr& y) { return n.Reshape(n.Transpose(y, {0, 2, 1, 3}), {0, 0, -3}); }

/// input [batch, sequence, heads * size] or [batch, heads, sequence, size], positions (an offset or all), caches.
Expr ImportRotaryEmbedding(NodeImport& n) {
  n.Ignore({"is_packed_batching"});
  if (n.Float("scale", 1.0) != 1) n.Unsupported("'scale' other than 1 isn't implemented");
  if (n.Rank(2) != 2 || n.Rank(3) != 2) n.Invalid("the caches of cosines and sines aren't matrices");
  const int64_t rotated = n.Int("rotary_embedding_dim", 0), *half = AsConstInt(TypeOf(n.In(2))->shape[1]);
  if (rotated != 0 && half != nullptr && rotated != 2 * *half) {
    n.Invalid(StrCat("'rotary_embedding_dim' is ", rotated, ", caches are for ", 2 * *half));
  }
  const bool flat = n.Rank(0) == 3, interleaved = n.Flag("interleaved", false);
  int64_t heads = n.Int("num_heads", 0);
  Expr x = n.In(0);
  if (flat) {
    const int64_t* width = AsConstInt(TypeOf(x)->shape[2]);
    if (heads == 0 && (width == nullptr || half == nullptr)) {
      // As many as the caches are for.
      const int64_t size = half != nullptr ? 2 * *half : rotated;
      if (size < 1) n.Unsupported("neither 'num_heads' nor the width of the caches is known when compiling");
      const Term given(n, x), count = DividedBy(DimOf(given, 2), size, "number of columns by the width of the caches");
      x = n.Transpose(ReshapeTo(given, {DimOf(given, 0), DimOf(given, 1), count, IntNum(n, size)}), {0, 2, 1, 3});
    } else {
      if (heads == 0 && *half > 0) heads = *width / (2 * *half);
      x = SplitHeads(n, x, heads);
    }
  } else if (n.Rank(0) != 4) {
    n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected 3 or 4"));
  }
  Term positions = In(n, 1).As(DataType::Int(64));
  if (positions.rank() > 2) n.Invalid(StrCat("'position_ids' has rank ", positions.rank(), ", expected 2 at most"));
  if (positions.rank() == 2) {
    positions = OfSameSize(positions, {{0, 0}, {1, 2}}, Term(n, x), "the samples and steps, and their positions");
  } else {  // that of the first step
    positions = Iota(DimOf(Term(n, x), 2)) + positions.Reshape({1});
  }
  positions = AtLeast(positions, 0, "position");
  Expr y =
      Rotated(n, x, CacheRows(n, n.In(2), positions, "error"), CacheRows(n, n.In(3), positions, "error"), interleaved);
  return flat ? Joined(n, y) : y;
}

/// Scores and softmax of [batch, heads, sequence, size] operands; `bias` is added to the scores (null: none).
Expr Attended(NodeImport& n, const Expr& q, const Expr& k, const Expr& v, const Expr& scale, const Expr& bias,
              double softcap = 0) {
  const DataType dtype = TypeOf(q)->dtype;
  Expr scores = MatMulAnyRank(n, q, n.Transpose(k, {0, 1, 3, 2}));
  scores = Mul(n, scores, scale);
  if (softcap > 0) {
    Expr cap = n.Scalar(dtype, softcap);
    scores = Mul(n, n.Call("tanh", {n.Call("divide", {scores, cap})}), cap);
  }
  if (bias.defined()) scores = Add(n, scores, bias);
  return MatMulAnyRank(n, n.Call("nn.softmax", {scores}, {{"axis", int64_t{3}}}), v);
}

/// Which of `keys` keys each of `queries` queries may see by position, the last query all: 0 or `masked`.
Expr CausalBias(NodeImport& n, const Term& queries, const Term& keys, DataType dtype, double masked) {
  const Term last = Iota(queries).Expand(1) + (keys - queries);  // that a query sees
  return (Iota(keys).Expand(0) <= last).Select(Term(n, n.Scalar(dtype, 0)), masked).Expand(0, 2);
}

constexpr const char* kMaskSizes = "sizes of the operand and of the mask";

/// Operands of attention [batch, heads, sequence, size] that a mask has to fit, and whether they are those of an
/// operator that also takes [2 batch] bounds and a mask of one column, [batch or 1, 1], which masks nothing.
struct Masked {
  Term queries, keys;
  bool to_itself;
};

bool SameDim(const PrimExpr& a, const PrimExpr& b) { return !IsAnyDim(a) && !IsAnyDim(b) && StructuralEqual(a, b); }

/// Which of the keys are before the bounds [batch] or, of [2 batch], before the first and from the second on.
Term WithinBounds(const Term& bounds, const Masked& operands) {
  NodeImport& n = bounds.node();
  const PrimExpr &own = bounds.shape()[0], &batch = operands.queries.shape()[0];
  const int64_t *length = AsConstInt(own), *rows = AsConstInt(batch);
  const bool known = length != nullptr && rows != nullptr, two = operands.to_itself;
  if (known && *length != *rows && !(two && *length == 2 * *rows)) {
    n.Unsupported(StrCat("masks of ", *length, " numbers for a batch of ", *rows, " aren't implemented"));
  }
  const Term key = Iota(DimOf(operands.keys, 2)).Expand(0);
  if (!two || SameDim(own, batch)) {  // one number would count for all rows
    return key < OfSameSize(bounds, {{0, 0}}, operands.queries, kMaskSizes).Expand(1);
  }
  if (known) return key < bounds.Slice(0, 0, *rows).Expand(1) && key >= bounds.Slice(0, *rows, 2 * *rows).Expand(1);
  const Term count = DimOf(bounds, 0), size = DimOf(operands.queries, 0), twice = size * 2.0;
  const Term fits = EqualTo(count, (count == twice).Select(twice, size), kMaskSizes);
  // Where there is no second bound, it is 0.
  const Term all = Concat({ReshapeTo(bounds, std::vector<Term>{fits}), Full(IntNum(n, 0), size.Reshape({1}))}, 0);
  return key < SliceAxis(all, 0, IntNum(n, 0), size).Expand(1) && key >= SliceAxis(all, 0, size, twice).Expand(1);
}

/// A mask [batch, keys] of the operands' sizes, or of one column where that masks nothing.
Term OneForEachKey(const Term& mask, const Masked& operands) {
  const int64_t* columns = AsConstInt(mask.shape()[1]);
  const bool same =
      SameDim(mask.shape()[0], operands.queries.shape()[0]) && SameDim(mask.shape()[1], operands.keys.shape()[2]);
  if (same || !operands.to_itself || (columns != nullptr && *columns != 1)) {
    return OfSameSize(OfSameSize(mask, {{0, 0}}, operands.queries, kMaskSizes), {{1, 2}}, operands.keys, kMaskSizes);
  }
  const Term rows = DimOf(mask, 0), width = DimOf(mask, 1), one = IntNum(mask.node(), 1);
  const Term expected = (rows == 1.0 && width == 1.0).Select(one, DimOf(operands.queries, 0));
  return ReshapeTo(mask, {EqualTo(rows, expected, kMaskSizes),
                          EqualTo(width, (width == 1.0).Select(one, DimOf(operands.keys, 2)), kMaskSizes)});
}

/// A mask of keys as what is added to scores: [batch, keys] or [batch, queries, keys], 1 where one is seen; [batch],
/// how many are seen; [2 batch], before which the keys end, then at which they begin.
Expr MaskBias(NodeImport& n, size_t i, const Masked& operands, DataType dtype, double masked) {
  Term mask = In(n, i);
  if (mask.rank() < 1 || mask.rank() > 3) n.Unsupported(StrCat("masks of rank ", mask.rank(), " aren't implemented"));
  if (mask.rank() == 1) {
    mask = WithinBounds(mask.As(DataType::Int(64)), operands);
  } else if (mask.rank() == 2) {
    mask = OneForEachKey(mask, operands);
  } else {
    mask = OfSameSize(OfSameSize(mask, {{0, 0}, {1, 2}}, operands.queries, kMaskSizes), {{2, 2}}, operands.keys,
                      kMaskSizes);
  }
  Term seen = mask.As(dtype);
  seen = seen.rank() == 2 ? seen.Expand(1, 2) : seen.Expand(1);
  return (1.0 - seen) * masked;
}

Expr Sum(NodeImport& n, const Expr& a, const Expr& b) { return !a.defined() ? b : !b.defined() ? a : Add(n, a, b); }

constexpr double kMasked = -10000;

/// Elements [begin, end) of one dimension; as a slice of known bounds where these are known.
Term Part(const Term& x, int axis, const Term& begin, const Term& end) {
  NodeImport& n = x.node();
  const auto from = n.KnownElements(begin), to = n.KnownElements(end);
  return from && to ? x.Slice(axis, from->front(), to->front()) : SliceAxis(x, axis, begin, end);
}

/// query, key, value, bias, key padding mask, attention bias, past key, past value.
std::vector<Expr> ImportMultiHeadAttention(NodeImport& n) {
  const int64_t heads = n.Int("num_heads");
  const double masked = n.Float("mask_filter_value", kMasked);
  if (n.Rank(0) != 3 || !n.Has(1) || !n.Has(2)) n.Unsupported("packed queries, keys and values aren't implemented");
  for (size_t i = 1; i < 3; ++i) {
    if (n.Rank(i) != 3 && n.Rank(i) != 4) n.Invalid(StrCat("input ", i, " has rank ", n.Rank(i), ", expected 3 or 4"));
  }
  Expr q = n.In(0), k = n.In(1), v = n.In(2);
  if (n.Has(3)) {
    const Term hidden = DimOf(Term(n, q), 2), all = In(n, 3);
    q = Add(n, q, Part(all, 0, IntNum(n, 0), hidden));
    if (RankOf(k) == 3) k = Add(n, k, Part(all, 0, hidden, hidden * 2.0));
    if (RankOf(v) == 3) v = Add(n, v, Part(all, 0, hidden * 2.0, DimOf(all, 0)));
  }
  q = SplitHeads(n, q, heads);
  if (RankOf(k) == 3) k = SplitHeads(n, k, heads);
  if (RankOf(v) == 3) v = SplitHeads(n, v, heads);
  k = OfSameSize({n, k}, {{0, 0}, {1, 1}, {3, 3}}, {n, q}, "batches, heads or sizes of queries and keys");
  v = OfSameSize({n, v}, {{0, 0}, {1, 1}, {2, 2}}, {n, k}, "batches, heads or lengths of keys and values");
  if (n.Has(6) != n.Has(7)) n.Invalid("past key and value have to be given together");
  if (n.Has(6)) {
    k = n.Concat({n.In(6), k}, 2);
    v = n.Concat({n.In(7), v}, 2);
  }
  const Term queries = DimOf(Term(n, q), 2), keys = DimOf(Term(n, k), 2);
  const DataType dtype = n.DType(0);
  Expr bias = n.Has(5) ? n.In(5) : Expr();
  if (n.Has(4)) bias = Sum(n, bias, MaskBias(n, 4, {{n, q}, {n, k}, false}, dtype, masked));
  if (n.Flag("unidirectional", false)) bias = Sum(n, bias, CausalBias(n, queries, keys, dtype, masked));
  return {Joined(n, Attended(n, q, k, v, ScaleOf(n, q, dtype), bias)), k, v};
}

/// Attention over `all` [batch, sequence, 2 H + Hv]: queries, keys and values beside each other. The inputs at which
/// the mask, the past [2, batch, heads, past, size] and the attention bias are, where there are any.
std::vector<Expr> AttendedToItself(NodeImport& n, const Expr& all, size_t mask, size_t past,
                                   std::optional<size_t> attention_bias) {
  const int64_t heads = n.Int("num_heads");
  const double masked = n.Float("mask_filter_value", kMasked);
  if (n.Flag("do_rotary", false)) n.Unsupported("'do_rotary' isn't implemented");
  n.Ignore({"rotary_embedding_dim", "past_present_share_buffer"});
  const int64_t* known = AsConstInt(TypeOf(all)->shape[2]);
  const Term width = DimOf(Term(n, all), 2);
  Term size = FloorDiv(width, 3), expected = size * 3.0;
  if (known != nullptr && *known % 3 != 0 && !n.HasAttr("qkv_hidden_sizes")) {
    n.Invalid(StrCat("3 doesn't divide the ", *known, " columns of the weights"));
  }
  if (n.HasAttr("qkv_hidden_sizes")) {
    const Ints sizes = n.Ints("qkv_hidden_sizes");
    const bool fit = sizes.size() == 3 && sizes[0] == sizes[1] && sizes[0] >= 0 && sizes[2] >= 0;
    if (!fit || (known != nullptr && sizes[0] + sizes[1] + sizes[2] != *known)) {
      n.Invalid("'qkv_hidden_sizes' doesn't fit the weights");
    }
    size = IntNum(n, sizes[0]);
    expected = IntNum(n, sizes[0] + sizes[1] + sizes[2]);
  }
  const Term end = known != nullptr ? width : EqualTo(width, expected, "number of columns of the weights");
  Expr q = SplitHeads(n, Part(Term(n, all), 2, IntNum(n, 0), size), heads);
  Expr k = SplitHeads(n, Part(Term(n, all), 2, size, size * 2.0), heads);
  Expr v = SplitHeads(n, Part(Term(n, all), 2, size * 2.0, end), heads);
  if (n.Has(past)) {
    k = n.Concat({n.Squeeze(n.Slice(n.In(past), 0, 0, 1), {0}), k}, 2);
    v = n.Concat({n.Squeeze(n.Slice(n.In(past), 0, 1, 2), {0}), v}, 2);
  }
  const Term queries = DimOf(Term(n, q), 2), keys = DimOf(Term(n, k), 2);
  const DataType dtype = TypeOf(all)->dtype;
  Expr bias = attention_bias && n.Has(*attention_bias) ? n.In(*attention_bias) : Expr();
  if (n.Has(mask)) bias = Sum(n, bias, MaskBias(n, mask, {{n, q}, {n, k}, true}, dtype, masked));
  if (n.Flag("unidirectional", false)) bias = Sum(n, bias, CausalBias(n, queries, keys, dtype, masked));
  Expr y = Joined(n, Attended(n, q, k, v, ScaleOf(n, q, dtype), bias));
  Expr present;
  if (n.WantsOutput(1)) present = n.Concat({n.ExpandDims(k, 0), n.ExpandDims(v, 0)}, 0);
  return {y, present};
}

/// input [batch, sequence, I], weights [I, 2 H + Hv], bias, mask, past, attention bias.
std::vector<Expr> ImportMsAttention(NodeImport& n) {
  if (n.Rank(0) != 3) n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected 3"));
  if (n.Rank(1) != 2) n.Invalid(StrCat("the weights have rank ", n.Rank(1), ", expected 2"));
  Expr all = MatMulAnyRank(n, n.In(0), n.In(1));
  if (n.Has(2)) all = Add(n, all, n.In(2));
  return AttendedToItself(n, all, 3, 4, 5);
}

/// input [batch, sequence, I] and weights [I, 3 H] in bytes, bias, their scales, mask, their zero points, past.
std::vector<Expr> ImportQAttention(NodeImport& n) {
  if (n.Rank(0) != 3) n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected 3"));
  const Expr scale = n.Reshape(n.In(3), {});
  Expr all = IntegerProduct(n, n.In(0), scale, n.Has(6) ? n.In(6) : Expr(), 1, 4, 7);
  return AttendedToItself(n, Add(n, all, n.In(2)), 5, 8, std::nullopt);
}

}  // namespace

void RegisterContribTransformerRules(RuleTable& table) {
  AddContrib(table, "SkipSimplifiedLayerNormalization", ImportSkipSimplifiedLayerNormalization);
  AddContrib(table, "SkipLayerNormalization", ImportSkipLayerNormalization);
  AddContrib1(table, "SimplifiedLayerNormalization", ImportSimplifiedLayerNormalization);
  AddContrib(table, "EmbedLayerNormalization", ImportEmbedLayerNormalization);
  AddContrib1(table, "RotaryEmbedding", ImportRotaryEmbedding);
  AddContrib(table, "MultiHeadAttention", ImportMultiHeadAttention);
  AddContrib(table, "Attention", ImportMsAttention);
  AddContrib(table, "QAttention", ImportQAttention);
  AddContrib(table, "GroupQueryAttention", ImportGroupQueryAttention);
}

}  // namespace treadle::onnx
