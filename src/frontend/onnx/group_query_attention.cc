// SPDX-License-Identifier: Apache-2.0
// Attention with fewer heads of keys than of queries, and the keys and values of steps before. These may stand in
// buffers with room for more: how much is in use, row by row, is known when the model runs.
#include "frontend/onnx/group_query_attention.h"

#include <cmath>
#include <limits>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/compose.h"
#include "frontend/onnx/matmul.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

const DataType kInt64 = DataType::Int(64);

/// Inputs: query, key, value (or all in the first), past key and value [batch, heads, past, size], keys in use per row
/// less 1, and in the longest row; caches of cosines and sines; positions; bias; sinks, a score per head that takes its
/// share of attention and has no value.
class GroupQueryAttention {
 public:
  explicit GroupQueryAttention(NodeImport& n)
      : n_(n),
        heads_(n.Int("num_heads")),
        kv_heads_(n.Int("kv_num_heads")),
        queries_(IntNum(n, 0)),
        keys_(IntNum(n, 0)),
        first_(IntNum(n, 0)),
        q_(In(n, 0)),
        k_(q_),
        v_(q_) {}
  std::vector<Expr> Import();

 private:
  enum Input : size_t { kPastKey = 3, kPastValue, kUsed, kTotal, kCos, kSin, kPositions, kBias, kSinks };

  void Refuse();
  bool HasRoom(const Term& total) const;
  Term Heads(const Term& x, int64_t heads) { return {n_, SplitHeads(n_, x, heads)}; }
  void Split();
  Term WithinCaches(const Term& positions);
  void Rotate();
  Term Joined(size_t past, const Term& added);
  Term Masked(const Term& scores);
  Term Softmax(const Term& scores);
  Term Product(const Term& left, const Term& kept, bool transposed);

  NodeImport& n_;
  int64_t heads_, kv_heads_;
  bool has_past_ = false;
  int64_t room_ = -1;    ///< of the buffers, where results are those of steps before with rows written; else -1
  Term queries_, keys_;  ///< numbers of them, int64; keys with those of steps before
  Term first_;           ///< the position of each row's first query, (batch, 1) or (1, 1), int64
  Term q_, k_, v_;
};

void GroupQueryAttention::Refuse() {
  for (size_t i = kSinks + 1; i < n_.num_inputs(); ++i) {
    if (n_.Has(i)) n_.Unsupported("quantised caches and normalised queries aren't implemented");
  }
  n_.Ignore({"kv_cache_bit_width", "k_quant_type", "v_quant_type", "sliding_window_cache"});
  if (n_.Int("qk_output", 0) != 0) n_.Unsupported("'qk_output' isn't implemented");
  if (n_.Has(kPastKey) != n_.Has(kPastValue)) n_.Invalid("past key and value have to be given together");
  for (size_t i : {kPastKey, kPastValue}) {
    if (n_.Has(i) && n_.Rank(i) != 4) n_.Invalid("past keys and values have to have rank 4");
  }
  if (heads_ < 1 || kv_heads_ < 1 || heads_ % kv_heads_ != 0) {
    n_.Invalid(StrCat("'num_heads' is ", heads_, ", 'kv_num_heads' ", kv_heads_));
  }
}

/// Whether the buffers of steps before, of a size that is known, have room for all keys: the model says how many they
/// are, or gives back as many as it takes.
bool GroupQueryAttention::HasRoom(const Term& total) const {
  const int64_t* room = AsConstInt(TypeOf(n_.In(kPastKey))->shape[2]);
  if (room == nullptr) return false;
  if (const auto known = n_.KnownElements(total)) return known->size() == 1 && known->front() <= *room;
  return n_.DeclaredSize(1, 2) == *room && n_.DeclaredSize(2, 2) == *room;
}

void GroupQueryAttention::Split() {
  const Term all = In(n_, 0);
  if (n_.Has(1) && n_.Has(2)) {
    auto beside = [&](size_t i) {
      if (n_.Rank(i) != all.rank()) n_.Invalid("query, key and value have different ranks");
      return OfSameSize(In(n_, i), {{0, 0}, {1, 1}}, all, "batches or lengths of query and key or value");
    };
    q_ = Heads(all, heads_);
    k_ = Heads(beside(1), kv_heads_);
    v_ = Heads(beside(2), kv_heads_);
    return;
  }
  if (all.rank() != 3) n_.Invalid("the operand's rank isn't 3");
  const int64_t* width = AsConstInt(all.shape()[2]);
  if (width == nullptr) {  // all heads are beside each other
    const Term heads = Heads(all, heads_ + 2 * kv_heads_);
    q_ = heads.Slice(1, 0, heads_);
    k_ = heads.Slice(1, heads_, heads_ + kv_heads_);
    v_ = heads.Slice(1, heads_ + kv_heads_, heads_ + 2 * kv_heads_);
    return;
  }
  const int64_t all_heads = heads_ + 2 * kv_heads_;
  if (*width < 1 || *width % all_heads != 0) {
    n_.Invalid(StrCat(*width, " columns of queries, keys and values, which ", all_heads, " heads don't divide"));
  }
  const int64_t size = *width / all_heads, split = heads_ * size, one = kv_heads_ * size;
  q_ = Heads(all.Slice(2, 0, split), heads_);
  k_ = Heads(all.Slice(2, split, split + one), kv_heads_);
  v_ = Heads(all.Slice(2, split + one, split + 2 * one), kv_heads_);
}

/// The number of positions, if the caches of cosines and sines have a row for each.
Term GroupQueryAttention::WithinCaches(const Term& positions) {
  if (!n_.Flag("do_rotary", false) || !n_.Has(kCos)) return positions;
  const Term rows = DimOf(In(n_, kCos), 0);
  const auto known = n_.KnownElements(positions), limit = n_.KnownElements(rows);
  if (!known || !limit) return {n_, CheckedValues(n_, positions, "at_most", rows, "number of positions")};
  if (known->front() > limit->front()) {
    n_.Invalid(StrCat(known->front(), " positions, the caches of cosines and sines have ", limit->front(), " rows"));
  }
  return positions;
}

void GroupQueryAttention::Rotate() {
  if (!n_.Flag("do_rotary", false)) {
    n_.Ignore({"rotary_interleaved"});
    for (size_t i : {kCos, kSin, kPositions}) n_.IgnoreInput(i);
    return;
  }
  Term at = Iota(has_past_ ? queries_ : WithinCaches(queries_)).Expand(0) + first_;
  if (n_.Has(kPositions)) {
    const Term last = DimOf(In(n_, kCos), 0) - 1.0;
    at = Term(n_, CheckedValues(n_, In(n_, kPositions).As(kInt64), "at_most", last, "position"));
  }
  const Expr cos = CacheRows(n_, n_.In(kCos), at, "clip"), sin = CacheRows(n_, n_.In(kSin), at, "clip");
  const bool interleaved = n_.Flag("rotary_interleaved", false);
  q_ = Term(n_, Rotated(n_, q_, cos, sin, interleaved));
  k_ = Term(n_, Rotated(n_, k_, cos, sin, interleaved));
}

/// The keys or values of steps before with those of this one: as many as the longest row has, or as there is room for
/// in `past`. What a row doesn't use are copies of its last one.
Term GroupQueryAttention::Joined(size_t past, const Term& added) {
  if (!has_past_) return added;
  if (room_ > 0) {
    const Term begin = BroadcastTo(first_.Squeeze({1}), Stack({DimOf(added, 0)}));
    return {n_,
            n_.Call("nn.contrib_write_rows", {n_.In(past), added, begin}, {{"axis", int64_t{2}}, {"circular", false}})};
  }
  const Term before = In(n_, past), both = Concat({before, added}, 2), room = DimOf(before, 2);
  const Term place = Iota(keys_).Expand(0);  // (1, keys)
  const Term is_new = place >= first_;
  const Term from = is_new.Select(Min(place - first_ + room, queries_ + room - 1.0), place);
  const int64_t* batch = AsConstInt(TypeOf(from)->shape[0]);
  if (batch != nullptr && *batch == 1) {
    return {n_, n_.Call("take", {both, from.Squeeze({0})}, {{"axis", int64_t{2}}, {"mode", std::string("clip")}})};
  }
  const Term shape = Stack({DimOf(added, 0), DimOf(added, 1), keys_, DimOf(added, 3)});
  const Term index = BroadcastTo(from.Expand(1).Expand(3), shape);
  return {n_, n_.Call("gather", {both, index}, {{"axis", int64_t{2}}})};
}

/// `scores` with the bias, and without keys after the query's own and those outside of its window.
Term GroupQueryAttention::Masked(const Term& scores) {
  const int64_t window = n_.Int("local_window_size", -1);
  Term result = scores;
  if (n_.Has(kBias)) {  // has no columns for room that isn't used
    const Term bias = In(n_, kBias), column = Min(Iota(keys_), DimOf(bias, 3) - 1.0);
    result = result + bias.Take(column, 3);
  }
  if (!n_.Flag("causal", true)) {
    if (has_past_) n_.Unsupported("'causal' of 0 isn't implemented with steps before");
    return result;
  }
  const Term at = (Iota(queries_).Expand(0) + first_).Expand(1).Expand(3);  // batch, 1, queries, 1
  const Term key = Iota(keys_).Expand(0, 3);
  Term seen = at >= key;
  if (window > 0) seen = seen.Op("logical_and", key > at - static_cast<double>(window));
  const double lowest = scores.dtype().bits() == 16 ? -65504 : std::numeric_limits<float>::lowest();
  return seen.Select(result, result.Number(lowest));
}

Term GroupQueryAttention::Softmax(const Term& scores) {
  const bool smooth = n_.Int("smooth_softmax", 0) > 0;
  if (!smooth && !n_.Has(kSinks)) return scores.Op("nn.softmax", {{"axis", int64_t{3}}});
  const Term sink = n_.Has(kSinks) ? In(n_, kSinks).As(scores.dtype()).Reshape({1, heads_, 1, 1}) : scores.Number(0);
  const Term most = Max(scores.Reduce("max", {3}, true), sink), power = (scores - most).Op("exp");
  return power / (power.Sum({3}, true) + (sink - most).Op("exp"));
}

/// `left` [batch, heads, queries, ..] times `kept` [batch, kept heads, .., ..] or its transpose, each of whose heads
/// serves a group of heads: [batch, heads, queries, ..].
Term GroupQueryAttention::Product(const Term& left, const Term& kept, bool transposed) {
  const int64_t group = heads_ / kv_heads_;
  const int64_t *batch = AsConstInt(TypeOf(q_)->shape[0]), *queries = AsConstInt(TypeOf(q_)->shape[2]);
  if (batch == nullptr || queries == nullptr) {
    const Term all = group == 1 ? kept : kept.Op("repeat", {{"repeats", group}, {"axis", int64_t{1}}});
    return {n_, MatMulAnyRank(n_, left, transposed ? all.Permute({0, 1, 3, 2}) : all)};
  }
  // The queries of a group are rows of one product: what is kept is read once for all, and as it stands.
  const Term rows = left.Reshape({0, -4, kv_heads_, group, 0, 0}).Reshape({-3, -3, 0});
  const Term product =
      rows.Op("nn.batch_matmul", kept.Reshape({-3, 0, 0}), {{"transpose_a", false}, {"transpose_b", transposed}});
  return product.Reshape({-4, *batch, kv_heads_, -4, group, *queries, 0}).Reshape({0, -3, 0, 0});
}

std::vector<Expr> GroupQueryAttention::Import() {
  Refuse();
  Split();
  queries_ = DimOf(q_, 2);
  if (n_.Has(kPastKey)) {
    const int64_t* room = AsConstInt(TypeOf(n_.In(kPastKey))->shape[2]);
    has_past_ = room == nullptr || *room > 0;
  }
  first_ = IntNum(n_, 0).Reshape({1, 1});
  keys_ = queries_;
  if (has_past_) {
    Term total = In(n_, kTotal).As(kInt64).Reshape({});
    keys_ = Max(total, DimOf(In(n_, kPastKey), 2));
    if (HasRoom(total)) {
      room_ = *AsConstInt(TypeOf(n_.In(kPastKey))->shape[2]);
      keys_ = IntNum(n_, room_);
      total = Term(n_, CheckedValues(n_, total, "at_most", keys_, "total_sequence_length"));
    }
    // In a first step rows may be shorter than the longest; all begin at 0.
    Term less = In(n_, kUsed).As(kInt64).Reshape({-1, 1});
    less = OfSameSize(less, {{0, 0}}, q_, "batches of query and seqlens_k");
    less = OfSameSize(less, {{0, 0}}, In(n_, kPastKey), "batches of past and seqlens_k");
    const Term used(n_, CheckedValues(n_, less, "at_most", keys_ - 1.0, "entry of seqlens_k"));
    first_ = WithinCaches(total).Op("equal", queries_).Select(used * 0.0, used + 1.0 - queries_);
  } else {
    for (size_t i : {kPastKey, kPastValue, kUsed, kTotal}) n_.IgnoreInput(i);
  }
  Rotate();
  const Term keys = Joined(kPastKey, k_), values = Joined(kPastValue, v_);
  Term scores = Product(q_, keys, true) * ScaleOf(n_, q_, q_.dtype());
  if (const double cap = n_.Float("softcap", 0.0); cap > 0) scores = (scores * (1 / cap)).Op("tanh") * cap;
  const Term y = Product(Softmax(Masked(scores)), values, false);
  return {y.Permute({0, 2, 1, 3}).Reshape({0, 0, -3}), keys, values};
}

}  // namespace

Expr SplitHeads(NodeImport& n, const Expr& x, int64_t heads) {
  if (RankOf(x) != 3 || heads < 1) n.Invalid(StrCat(heads, " heads of an operand of rank ", RankOf(x)));
  const int64_t* width = AsConstInt(TypeOf(x)->shape[2]);
  if (width != nullptr && (*width < 1 || *width % heads != 0)) {
    n.Invalid(StrCat(heads, " heads don't divide the operand"));
  }
  Term rows(n, x);
  if (width == nullptr) {
    const Term columns = AtLeast(DimOf(rows, 2), 1, "number of columns");
    const Term size = DividedBy(columns, heads, "number of columns by the number of heads");
    rows = ReshapeTo(rows, {DimOf(rows, 0), DimOf(rows, 1), IntNum(n, heads), size});
  } else {
    rows = rows.Reshape({0, 0, heads, *width / heads});
  }
  return n.Transpose(rows, {0, 2, 1, 3});
}

Term ScaleOf(NodeImport& n, const Expr& q, DataType dtype) {
  const double scale = n.Float("scale", 0.0);
  const int64_t* size = AsConstInt(TypeOf(q)->shape[3]);
  if (scale != 0 || size != nullptr) {
    return {n, n.Scalar(dtype, scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(*size)))};
  }
  return (1.0 / DimOf(Term(n, q), 3).As(DataType::Float(32)).Op("sqrt")).As(dtype);
}

namespace {

/// The real and the imaginary part of `turning` times cosines and sines, joined again.
Expr Turned(NodeImport& n, const Expr& first, const Expr& second, const Expr& cos, const Expr& sin, bool interleaved) {
  auto mul = [&](const Expr& a, const Expr& b) { return n.Call("multiply", {a, b}); };
  const Expr real = n.Call("subtract", {mul(first, cos), mul(second, sin)});
  const Expr imaginary = n.Call("add", {mul(first, sin), mul(second, cos)});
  if (!interleaved) return n.Concat({real, imaginary}, 3);
  return n.Reshape(n.Concat({n.ExpandDims(real, 4), n.ExpandDims(imaginary, 4)}, 4), {0, 0, 0, -3});
}

/// Rotated, where only a run knows the size of the operand or of the caches.
Expr RotatedAtRunTime(NodeImport& n, const Term& x, const Term& cos, const Expr& sin, bool interleaved) {
  const Term zero = IntNum(n, 0), half = DimOf(cos, cos.rank() - 1), size = DimOf(x, 3);
  const Term rotated(n, CheckedValues(n, half * 2.0, "at_most", size, "width of the caches of cosines and sines"));
  const Term turning = SliceAxis(x, 3, zero, rotated);
  Expr first, second;
  if (interleaved) {
    const Term pairs = turning.Reshape({0, 0, 0, -1, 2});
    first = pairs.Slice(4, 0, 1).Squeeze({4});
    second = pairs.Slice(4, 1, 2).Squeeze({4});
  } else {
    first = SliceAxis(turning, 3, zero, half);
    second = SliceAxis(turning, 3, half, rotated);
  }
  return n.Concat({Turned(n, first, second, cos, sin, interleaved), SliceAxis(x, 3, rotated, size)}, 3);
}

}  // namespace

Expr Rotated(NodeImport& n, const Expr& x, const Expr& cos, const Expr& sin, bool interleaved) {
  for (const PrimExpr& dim : {TypeOf(x)->shape[3], TypeOf(cos)->shape.back()}) {
    if (AsConstInt(dim) == nullptr) return RotatedAtRunTime(n, Term(n, x), Term(n, cos), sin, interleaved);
  }
  const int64_t size = n.StaticDim(x, 3), half = n.StaticDim(cos, RankOf(cos) - 1), rotated = 2 * half;
  if (rotated > size) n.Invalid("the caches of cosines and sines are too wide");
  Expr turning = rotated == size ? x : n.Slice(x, 3, 0, rotated), first, second;
  if (interleaved) {
    Expr both = n.Reshape(turning, {0, 0, 0, half, 2});
    first = n.Squeeze(n.Slice(both, 4, 0, 1), {4});
    second = n.Squeeze(n.Slice(both, 4, 1, 2), {4});
  } else {
    first = n.Slice(turning, 3, 0, half);
    second = n.Slice(turning, 3, half, rotated);
  }
  const Expr y = Turned(n, first, second, cos, sin, interleaved);
  return rotated == size ? y : n.Concat({y, n.Slice(x, 3, rotated, size)}, 3);
}

Expr CacheRows(NodeImport& n, const Expr& cache, const Expr& positions, const char* mode) {
  Expr rows = n.Call("take", {cache, positions}, {{"axis", int64_t{0}}, {"mode", mode}});
  if (RankOf(rows) == 2) rows = n.ExpandDims(rows, 0);
  return n.ExpandDims(rows, 1);
}

std::vector<Expr> ImportGroupQueryAttention(NodeImport& n) { return GroupQueryAttention(n).Import(); }

}  // namespace treadle::onnx
