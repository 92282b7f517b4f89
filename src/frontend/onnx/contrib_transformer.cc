// SPDX-License-Identifier: Apache-2.0
// com.microsoft operators of transformers: normalisations with a residual, rotary embedding, attention.
#include <cmath>
#include <limits>
#include <optional>

#include "frontend/onnx/contrib.h"
#include "frontend/onnx/matmul.h"

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

/// input, skip, gamma, bias; outputs: result, mean, inverse deviation, sum.
std::vector<Expr> ImportSkipSimplifiedLayerNormalization(NodeImport& n) {
  Expr sum = Add(n, n.In(0), n.In(1));
  if (n.Has(3)) sum = Add(n, sum, n.In(3));
  return {Normalised(n, sum, n.In(2), n.Float("epsilon", 1e-12), false), Expr(), Expr(), sum};
}

/// input, skip, gamma, beta, bias; outputs as above.
std::vector<Expr> ImportSkipLayerNormalization(NodeImport& n) {
  Expr sum = Add(n, n.In(0), n.In(1));
  if (n.Has(4)) sum = Add(n, sum, n.In(4));
  Expr y = Normalised(n, sum, n.In(2), n.Float("epsilon", 1e-12), true);
  if (n.Has(3)) y = Add(n, y, n.In(3));
  return {y, Expr(), Expr(), sum};
}

Expr ImportSimplifiedLayerNormalization(NodeImport& n) {
  n.Ignore({"stash_type"});
  if (n.Axis(n.Int("axis", -1), n.Rank(0)) != n.Rank(0) - 1) n.Unsupported("'axis' other than -1 isn't implemented");
  return Normalised(n, n.In(0), n.In(1), n.Float("epsilon", 1e-5), false);
}

/// ids, segment ids, tables of words, positions and segments, gamma, beta, mask, position ids; outputs: result, number
/// of unmasked positions, sum of the embeddings.
std::vector<Expr> ImportEmbedLayerNormalization(NodeImport& n) {
  n.Ignore({"mask_index_type"});
  auto rows = [&](size_t table, const Expr& ids) {
    return n.Call("take", {n.In(table), ids}, {{"axis", int64_t{0}}, {"mode", "clip"}});
  };
  Expr sum = rows(2, n.In(0));
  if (n.Has(8)) {
    sum = Add(n, sum, rows(3, n.In(8)));
  } else {
    sum = Add(n, sum, n.Slice(n.In(3), 0, 0, n.StaticDim(n.In(0), 1)));
  }
  if (n.Has(1) && n.Has(4)) sum = Add(n, sum, rows(4, n.In(1)));
  Expr y = Add(n, Normalised(n, sum, n.In(5), n.Float("epsilon", 1e-12), true), n.In(6));
  Expr count;
  if (n.Has(7)) count = n.Call("sum", {n.Cast(n.In(7), DataType::Int(32))}, {{"axis", Ints{1}}});
  return {y, count, sum};
}

/// x [batch, heads, sequence, size] turned by cosines and sines that broadcast to [batch, 1, sequence, rotated / 2].
Expr Rotated(NodeImport& n, const Expr& x, const Expr& cos, const Expr& sin, bool interleaved) {
  const Ints shape = n.StaticShapeOf(x);
  const int64_t size = shape[3], half = n.StaticDim(cos, RankOf(cos) - 1), rotated = 2 * half;
  if (rotated > size) n.Invalid("the caches of cosines and sines are too wide");
  Expr turning = rotated == size ? x : n.Slice(x, 3, 0, rotated), first, second;
  if (interleaved) {
    Expr both = n.Reshape(turning, {shape[0], shape[1], shape[2], half, 2});
    first = n.Squeeze(n.Slice(both, 4, 0, 1), {4});
    second = n.Squeeze(n.Slice(both, 4, 1, 2), {4});
  } else {
    first = n.Slice(turning, 3, 0, half);
    second = n.Slice(turning, 3, half, rotated);
  }
  Expr real = n.Call("subtract", {Mul(n, first, cos), Mul(n, second, sin)});
  Expr imaginary = Add(n, Mul(n, first, sin), Mul(n, second, cos));
  Expr y = interleaved ? n.Reshape(n.Concat({n.ExpandDims(real, 4), n.ExpandDims(imaginary, 4)}, 4),
                                   {shape[0], shape[1], shape[2], rotated})
                       : n.Concat({real, imaginary}, 3);
  return rotated == size ? y : n.Concat({y, n.Slice(x, 3, rotated, size)}, 3);
}

/// Rows `positions` ([sequence] or [batch, sequence]) of a cache, as Rotated takes them.
Expr CacheRows(NodeImport& n, const Expr& cache, const Expr& positions) {
  Expr rows = n.Call("take", {cache, positions}, {{"axis", int64_t{0}}, {"mode", "clip"}});
  if (RankOf(rows) == 2) rows = n.ExpandDims(rows, 0);
  return n.ExpandDims(rows, 1);
}

Expr Counting(NodeImport& n, int64_t count) {
  Ints numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = i;
  return n.IntVector(numbers);
}

/// input [batch, sequence, heads * size] or [batch, heads, sequence, size], positions (an offset or all), caches.
Expr ImportRotaryEmbedding(NodeImport& n) {
  n.Ignore({"is_packed_batching", "rotary_embedding_dim"});
  if (n.Float("scale", 1.0) != 1) n.Unsupported("'scale' other than 1 isn't implemented");
  const bool flat = n.Rank(0) == 3, interleaved = n.Flag("interleaved", false);
  Ints shape = n.StaticShape(0);
  int64_t heads = n.Int("num_heads", 0);
  Expr x = n.In(0);
  if (flat) {
    if (heads == 0) heads = shape[2] / (2 * n.StaticDim(n.In(2), 1));
    if (heads < 1 || shape[2] % heads != 0) n.Invalid(StrCat("'num_heads' is ", heads));
    x = n.Transpose(n.Reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
  } else if (n.Rank(0) != 4) {
    n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected 3 or 4"));
  }
  Expr positions = n.Cast(n.In(1), DataType::Int(64));
  if (RankOf(positions) == 1) positions = Add(n, Counting(n, n.StaticDim(x, 2)), positions);
  Expr y = Rotated(n, x, CacheRows(n, n.In(2), positions), CacheRows(n, n.In(3), positions), interleaved);
  return flat ? n.Reshape(n.Transpose(y, {0, 2, 1, 3}), shape) : y;
}

/// Scores and softmax of [batch, heads, sequence, size] operands; `bias` is added to the scores (null: none).
Expr Attended(NodeImport& n, const Expr& q, const Expr& k, const Expr& v, double scale, const Expr& bias,
              double softcap = 0) {
  const DataType dtype = TypeOf(q)->dtype;
  Expr scores = MatMulAnyRank(n, q, n.Transpose(k, {0, 1, 3, 2}));
  scores = Mul(n, scores, n.Scalar(dtype, scale));
  if (softcap > 0) {
    Expr cap = n.Scalar(dtype, softcap);
    scores = Mul(n, n.Call("tanh", {n.Call("divide", {scores, cap})}), cap);
  }
  if (bias.defined()) scores = Add(n, scores, bias);
  return MatMulAnyRank(n, n.Call("nn.softmax", {scores}, {{"axis", int64_t{3}}}), v);
}

Expr Heads(NodeImport& n, const Expr& x, int64_t heads) {
  const Ints shape = n.StaticShapeOf(x);
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0)
    n.Invalid(StrCat(heads, " heads don't divide the operand"));
  return n.Transpose(n.Reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}
Expr Joined(NodeImport& n, const Expr& y) {
  const Ints shape = n.StaticShapeOf(y);
  return n.Reshape(n.Transpose(y, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

/// Which of `keys` keys each of `queries` queries may see by position, the last query all: 0 or `masked`.
Expr CausalBias(NodeImport& n, int64_t queries, int64_t keys, DataType dtype, double masked) {
  std::vector<double> bias;
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) bias.push_back(j <= i + keys - queries ? 0 : masked);
  }
  return n.Const(ArrayOf(bias, {1, 1, queries, keys}, dtype));
}

/// A mask of keys ([batch, keys], 1: seen; [batch]: how many are seen; or of all scores) as what is added to scores.
Expr MaskBias(NodeImport& n, size_t i, int64_t batch, int64_t keys, DataType dtype, double masked) {
  Expr mask = n.In(i);
  const Ints shape = n.StaticShapeOf(mask);
  if (shape.size() == 1) {
    if (shape[0] != batch) n.Unsupported("masks of starts and ends aren't implemented");
    mask = n.Call("less", {n.Reshape(Counting(n, keys), {1, keys}), n.ExpandDims(n.Cast(mask, DataType::Int(64)), 1)});
  } else if (shape.size() == 4) {
    n.Unsupported("masks of rank 4 aren't implemented");
  }
  Expr seen = n.Cast(mask, dtype);
  seen = RankOf(seen) == 2 ? n.ExpandDims(seen, 1, 2) : n.ExpandDims(seen, 1);
  return Mul(n, n.Call("subtract", {n.Scalar(dtype, 1), seen}), n.Scalar(dtype, masked));
}

Expr Sum(NodeImport& n, const Expr& a, const Expr& b) { return !a.defined() ? b : !b.defined() ? a : Add(n, a, b); }

double ScaleOf(NodeImport& n, int64_t size) {
  const double scale = n.Float("scale", 0.0);
  return scale == 0 ? 1 / std::sqrt(static_cast<double>(size)) : scale;
}

constexpr double kMasked = -10000;

/// query, key, value, bias, key padding mask, attention bias, past key, past value.
std::vector<Expr> ImportMultiHeadAttention(NodeImport& n) {
  const int64_t heads = n.Int("num_heads");
  const double masked = n.Float("mask_filter_value", kMasked);
  if (n.Rank(0) != 3 || !n.Has(1) || !n.Has(2)) n.Unsupported("packed queries, keys and values aren't implemented");
  Expr q = n.In(0), k = n.In(1), v = n.In(2);
  const int64_t hidden = n.StaticDim(q, 2);
  if (n.Has(3)) {
    const int64_t all = n.StaticDim(n.In(3), 0);
    q = Add(n, q, n.Slice(n.In(3), 0, 0, hidden));
    if (RankOf(k) == 3) k = Add(n, k, n.Slice(n.In(3), 0, hidden, 2 * hidden));
    if (RankOf(v) == 3) v = Add(n, v, n.Slice(n.In(3), 0, 2 * hidden, all));
  }
  q = Heads(n, q, heads);
  if (RankOf(k) == 3) k = Heads(n, k, heads);
  if (RankOf(v) == 3) v = Heads(n, v, heads);
  if (n.Has(6) != n.Has(7)) n.Invalid("past key and value have to be given together");
  if (n.Has(6)) {
    k = n.Concat({n.In(6), k}, 2);
    v = n.Concat({n.In(7), v}, 2);
  }
  const int64_t queries = n.StaticDim(q, 2), keys = n.StaticDim(k, 2);
  const DataType dtype = n.DType(0);
  Expr bias = n.Has(5) ? n.In(5) : Expr();
  if (n.Has(4)) bias = Sum(n, bias, MaskBias(n, 4, n.StaticDim(q, 0), keys, dtype, masked));
  if (n.Flag("unidirectional", false)) bias = Sum(n, bias, CausalBias(n, queries, keys, dtype, masked));
  return {Joined(n, Attended(n, q, k, v, ScaleOf(n, n.StaticDim(q, 3)), bias)), k, v};
}

/// Attention over `all` [batch, sequence, 2 H + Hv]: queries, keys and values beside each other. The inputs at which
/// the mask, the past [2, batch, heads, past, size] and the attention bias are, where there are any.
std::vector<Expr> AttendedToItself(NodeImport& n, const Expr& all, size_t mask, size_t past,
                                   std::optional<size_t> attention_bias) {
  const int64_t heads = n.Int("num_heads");
  const double masked = n.Float("mask_filter_value", kMasked);
  if (n.Flag("do_rotary", false)) n.Unsupported("'do_rotary' isn't implemented");
  n.Ignore({"rotary_embedding_dim", "past_present_share_buffer"});
  const int64_t width = n.StaticDim(all, 2);
  Ints sizes = n.Ints("qkv_hidden_sizes", Ints{width / 3, width / 3, width / 3});
  if (sizes.size() != 3 || sizes[0] != sizes[1] || sizes[0] + sizes[1] + sizes[2] != width) {
    n.Invalid("'qkv_hidden_sizes' doesn't fit the weights");
  }
  Expr q = Heads(n, n.Slice(all, 2, 0, sizes[0]), heads);
  Expr k = Heads(n, n.Slice(all, 2, sizes[0], sizes[0] + sizes[1]), heads);
  Expr v = Heads(n, n.Slice(all, 2, sizes[0] + sizes[1], width), heads);
  if (n.Has(past)) {
    k = n.Concat({n.Squeeze(n.Slice(n.In(past), 0, 0, 1), {0}), k}, 2);
    v = n.Concat({n.Squeeze(n.Slice(n.In(past), 0, 1, 2), {0}), v}, 2);
  }
  const int64_t queries = n.StaticDim(q, 2), keys = n.StaticDim(k, 2);
  const DataType dtype = TypeOf(all)->dtype;
  Expr bias = attention_bias && n.Has(*attention_bias) ? n.In(*attention_bias) : Expr();
  if (n.Has(mask)) bias = Sum(n, bias, MaskBias(n, mask, n.StaticDim(q, 0), keys, dtype, masked));
  if (n.Flag("unidirectional", false)) bias = Sum(n, bias, CausalBias(n, queries, keys, dtype, masked));
  Expr y = Joined(n, Attended(n, q, k, v, ScaleOf(n, n.StaticDim(q, 3)), bias));
  Expr present;
  if (n.WantsOutput(1)) present = n.Concat({n.ExpandDims(k, 0), n.ExpandDims(v, 0)}, 0);
  return {y, present};
}

/// input [batch, sequence, I], weights [I, 2 H + Hv], bias, mask, past, attention bias.
std::vector<Expr> ImportMsAttention(NodeImport& n) {
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

/// Attention with fewer heads of keys than of queries, and the keys and values of steps before: query, key, value (or
/// all in the first), past key and value [batch, heads, past, size], keys in use per row less 1, and in all; caches of
/// cosines and sines; positions; bias.
class GroupQueryAttention {
 public:
  explicit GroupQueryAttention(NodeImport& n) : n_(n), heads_(n.Int("num_heads")), kv_heads_(n.Int("kv_num_heads")) {}
  std::vector<Expr> Import();

 private:
  void Split();
  Expr Positions();
  Expr Bias(int64_t keys);

  NodeImport& n_;
  int64_t heads_, kv_heads_;
  int64_t queries_ = 0, past_ = 0;
  Expr q_, k_, v_;
};

void GroupQueryAttention::Split() {
  if (heads_ < 1 || kv_heads_ < 1 || heads_ % kv_heads_ != 0) {
    n_.Invalid(StrCat("'num_heads' is ", heads_, ", 'kv_num_heads' ", kv_heads_));
  }
  if (n_.Has(1) && n_.Has(2)) {
    q_ = Heads(n_, n_.In(0), heads_);
    k_ = Heads(n_, n_.In(1), kv_heads_);
    v_ = Heads(n_, n_.In(2), kv_heads_);
    return;
  }
  const int64_t size = n_.StaticDim(n_.In(0), 2) / (heads_ + 2 * kv_heads_), split = heads_ * size;
  q_ = Heads(n_, n_.Slice(n_.In(0), 2, 0, split), heads_);
  k_ = Heads(n_, n_.Slice(n_.In(0), 2, split, split + kv_heads_ * size), kv_heads_);
  v_ = Heads(n_, n_.Slice(n_.In(0), 2, split + kv_heads_ * size, split + 2 * kv_heads_ * size), kv_heads_);
}

/// Of the queries: [batch, sequence], the last one of a row being the last that is in use.
Expr GroupQueryAttention::Positions() {
  const DataType i64 = DataType::Int(64);
  if (n_.Has(9)) return n_.Cast(n_.In(9), i64);
  Expr first = n_.Call("subtract", {n_.Cast(n_.In(5), i64), n_.Scalar(i64, static_cast<double>(queries_ - 1))});
  // Rows of a first step may be shorter than the longest; their positions begin at 0.
  if (past_ == 0) first = n_.Call("multiply", {first, n_.Scalar(i64, 0)});
  first = n_.Reshape(first, {-1, 1});
  return Add(n_, n_.Reshape(Counting(n_, queries_), {1, queries_}), first);
}

/// What keeps a query from keys after its own, and from those outside of its window.
Expr GroupQueryAttention::Bias(int64_t keys) {
  const DataType dtype = TypeOf(q_)->dtype, i64 = DataType::Int(64);
  const int64_t window = n_.Int("local_window_size", -1);
  Expr bias = n_.Has(10) ? n_.In(10) : Expr();
  if (!n_.Flag("causal", true)) return bias;
  Expr at = n_.ExpandDims(n_.ExpandDims(Positions(), 1), 3);  // batch, 1, queries, 1
  Expr key = n_.Reshape(Counting(n_, keys), {1, 1, 1, keys});
  Expr seen = n_.Call("less_equal", {key, at});
  if (window > 0) {
    Expr from = n_.Call("subtract", {at, n_.Scalar(i64, static_cast<double>(window))});
    seen = n_.Call("logical_and", {seen, n_.Call("greater", {key, from})});
  }
  const double masked = std::numeric_limits<float>::lowest();
  Expr hidden = n_.Call("where", {seen, n_.Scalar(dtype, 0), n_.Scalar(dtype, dtype.bits() == 16 ? -65504 : masked)});
  return Sum(n_, bias, hidden);
}

std::vector<Expr> GroupQueryAttention::Import() {
  n_.IgnoreInput(6);
  for (size_t i = 11; i < n_.num_inputs(); ++i) {
    if (n_.Has(i)) n_.Unsupported("sinks, quantised caches and normalised queries aren't implemented");
  }
  n_.Ignore({"kv_cache_bit_width", "k_quant_type", "v_quant_type", "sliding_window_cache"});
  if (n_.Int("smooth_softmax", 0) > 0) n_.Unsupported("'smooth_softmax' isn't implemented");
  if (n_.Int("qk_output", 0) != 0) n_.Unsupported("'qk_output' isn't implemented");
  Split();
  queries_ = n_.StaticDim(q_, 2);
  if (n_.Has(3) != n_.Has(4)) n_.Invalid("past key and value have to be given together");
  if (n_.Has(3)) past_ = n_.StaticDim(n_.In(3), 2);
  if (n_.Flag("do_rotary", false)) {
    Expr at = Positions(), cos = CacheRows(n_, n_.In(7), at), sin = CacheRows(n_, n_.In(8), at);
    const bool interleaved = n_.Flag("rotary_interleaved", false);
    q_ = Rotated(n_, q_, cos, sin, interleaved);
    k_ = Rotated(n_, k_, cos, sin, interleaved);
  } else {
    n_.Ignore({"rotary_interleaved"});
    for (size_t i : {7, 8}) {
      if (n_.Has(i)) n_.IgnoreInput(i);
    }
  }
  if (past_ > 0) {
    k_ = n_.Concat({n_.In(3), k_}, 2);
    v_ = n_.Concat({n_.In(4), v_}, 2);
  } else if (n_.Has(3)) {
    n_.IgnoreInput(3);
    n_.IgnoreInput(4);
  }
  const int64_t group = heads_ / kv_heads_;
  auto repeated = [&](const Expr& x) {
    return group == 1 ? x : n_.Call("repeat", {x}, {{"repeats", group}, {"axis", int64_t{1}}});
  };
  Expr bias = Bias(past_ + queries_);
  const double scale = ScaleOf(n_, n_.StaticDim(q_, 3));
  Expr y = Attended(n_, q_, repeated(k_), repeated(v_), scale, bias, n_.Float("softcap", 0.0));
  return {Joined(n_, y), k_, v_};
}

std::vector<Expr> ImportGroupQueryAttention(NodeImport& n) { return GroupQueryAttention(n).Import(); }

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
