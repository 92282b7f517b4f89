// SPDX-License-Identifier: Apache-2.0
// Operators of decoders that carry a state from call to call, and attention whose scores a graph changes.
#include <cmath>
#include <limits>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/composed.h"
#include "frontend/onnx/group_query_attention.h"
#include "frontend/onnx/loop.h"
#include "frontend/onnx/matmul.h"
#include "frontend/onnx/run_time_axes.h"
#include "treadle/ir/structural.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

const DataType kFloat32 = DataType::Float(32);
const DataType kInt64 = DataType::Int(64);

/// a sigmoid(alpha a) b
Expr ImportSwiGlu(NodeImport& n) {
  Term a = In(n, 0), b = In(n, 1);
  if (a.rank() != b.rank()) n.Invalid(StrCat("the operands have ranks ", a.rank(), " and ", b.rank()));
  std::vector<std::pair<int, int>> axes;
  for (int i = 0; i < a.rank(); ++i) axes.emplace_back(i, i);
  b = OfSameSize(b, axes, a, "sizes of the operands, which aren't broadcast,");
  return (a * (a * n.Float("alpha", 1.0)).Op("sigmoid")) * b;
}

/// The sum over taps of `x` (batch, channels, taps - 1 + length) times weights (channels, 1, taps).
Term SumOfTaps(const Term& x, const Term& weights, const Term& length, const Term& taps) {
  NodeImport& n = x.node();
  if (const auto known = n.KnownElements(taps)) {
    std::optional<Term> sum;
    for (int64_t k = 0; k < known->front(); ++k) {
      Term weight = weights.Slice(2, k, k + 1).Squeeze({1});  // (channels, 1)
      Term term = SliceAxis(x, 2, IntNum(n, k), length + static_cast<double>(k)) * weight;
      sum = sum ? *sum + term : term;
    }
    return *sum;
  }
  const Term seen = Iota(length).Expand(1) + Iota(taps).Expand(0);  // (length, taps)
  return (x.Take(seen, 2) * weights).Sum({3});
}

/// A depthwise convolution that only looks back; what it sees of earlier calls is its state.
std::vector<Expr> ImportCausalConv(NodeImport& n) {
  const std::string activation = n.Str("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    n.Invalid(StrCat("'activation' is ", QuoteName(activation)));
  }
  if (n.Rank(0) != 3 || n.Rank(1) != 3) n.Invalid("the operand and the weights have to have rank 3");
  Term x = In(n, 0);
  const Term given = WithSizes(In(n, 1), {-1, 1, -1}, "the weights").As(kFloat32);
  const Term weights = OfSameSize(given, {{0, 1}}, x, "channels of the operand and the weights");
  const Term taps = AtLeast(DimOf(weights, 2), 1, "number of the weights' elements"), kept = taps - 1;
  Term length = DimOf(x, 2), padded = x;
  if (n.Has(3)) {
    Term state = In(n, 3);
    if (state.rank() != 3) n.Invalid(StrCat("the state has rank ", state.rank(), ", expected 3"));
    const auto have = n.KnownElements(DimOf(state, 2)), want = n.KnownElements(kept);
    if (have && want && *have != *want) {
      n.Invalid(StrCat("the state has length ", have->front(), ", expected ", want->front()));
    }
    if (!have || !want)
      state = SliceAxis(state, 2, IntNum(n, 0), EqualTo(DimOf(state, 2), kept, "length of the state"));
    padded = Concat({state, x}, 2);
  } else if (const auto known = n.KnownElements(kept)) {
    if (known->front() > 0) padded = Term(n, n.Pad(x, {0, 0, known->front()}, {0, 0, 0}, x.Number(0), "constant"));
  } else {
    std::vector<Term> widths(6, IntNum(n, 0));
    widths[4] = kept;
    padded = Term(n, n.Call("dyn.nn.pad", {x, Stack(widths).Reshape({3, 2}), x.Number(0)},
                            {{"pad_mode", std::string("constant")}}));
  }
  Term y = SumOfTaps(padded.As(kFloat32), weights, length, taps);
  if (n.Has(2)) {
    if (n.Rank(2) != 1) n.Invalid(StrCat("the bias has rank ", n.Rank(2), ", expected 1"));
    y = y + OfSameSize(In(n, 2), {{0, 1}}, x, "channels of the operand and the bias").As(kFloat32).Expand(1);
  }
  y = y.As(x.dtype());
  if (activation != "none") {
    Term w = y.As(kFloat32);
    y = (w * w.Op("sigmoid")).As(x.dtype());
  }
  return {y, SliceAxis(padded, 2, length, length + kept)};
}

/// Rows of `update` in place of those of a cache, from an index of each sample's own on.
Expr ImportTensorScatter(NodeImport& n) {
  Term cache = In(n, 0), update = In(n, 1);
  const int rank = cache.rank(), axis = n.Axis(n.Int("axis", -2), rank);
  const std::string mode = n.Str("mode", "linear");
  if (mode != "linear" && mode != "circular") n.Invalid(StrCat("'mode' is ", QuoteName(mode)));
  if (axis == 0 || update.rank() != rank) n.Invalid("the axis is that of samples, or the ranks differ");
  const bool circular = mode == "circular";
  const Term samples = DimOf(cache, 0), room = DimOf(cache, axis) - DimOf(update, axis);
  if (auto known = n.KnownElements(room); known && (*known)[0] < 0) n.Invalid("there are more rows than the cache has");
  Term begin = BroadcastTo(IntNum(n, 0), Stack({samples}));
  if (n.Has(2)) {
    begin = In(n, 2);
    if (begin.dtype() != kInt64 || begin.rank() != 1) n.Invalid("the indices aren't a vector of int64");
    CheckSameSize(cache, 0, begin, 0, "the samples and their indices");
  }
  if (circular) {
    begin = begin + (AtLeast(room, 0, "rows of the cache less those written") - room);
  } else {
    begin = Term(n, CheckedValues(n, begin, "at_most", room, "index of the first row"));
  }
  return n.Call("nn.contrib_write_rows", {cache, update, begin}, {{"axis", int64_t{axis}}, {"circular", circular}});
}

/// A state of (keys, values) per head that each step reads and writes.
class LinearAttention {
 public:
  explicit LinearAttention(NodeImport& n) : n_(n), rule_(n.Str("update_rule", "gated_delta")) {
    n.Ignore({"chunk_size"});
    q_heads_ = n.Int("q_num_heads");
    heads_ = n.Int("kv_num_heads");
    if (heads_ < 1 || q_heads_ < 1 || q_heads_ % heads_ != 0) n.Invalid("the numbers of heads don't fit");
    if (rule_ != "linear" && rule_ != "gated" && rule_ != "delta" && rule_ != "gated_delta") {
      n.Invalid(StrCat("'update_rule' is ", QuoteName(rule_)));
    }
    gated_ = rule_ == "gated" || rule_ == "gated_delta";
    delta_ = rule_ == "delta" || rule_ == "gated_delta";
    if (gated_ != n.Has(4) || delta_ != n.Has(5)) n.Invalid("decay or beta don't fit the update rule");
  }

  std::vector<Expr> Import() {
    for (size_t i = 0; i < 3; ++i) {
      if (n_.Rank(i) != 3) n_.Invalid("query, key and value have to have rank 3");
    }
    if (n_.Has(3) && n_.Rank(3) != 4) n_.Invalid(StrCat("the state has rank ", n_.Rank(3), ", expected 4"));
    const Term key = Heads(1, heads_), value = Heads(2, heads_);
    const Term size = DimOf(key, 3).As(kFloat32);
    const double scale = n_.Float("scale", 0.0);
    const Term factor = scale == 0 ? 1.0 / size.Op("sqrt") : size.Number(scale);
    const DataType dtype = n_.DType(0);
    const Term heads = OfSameSize(Heads(0, q_heads_), {{3, 3}}, key, "sizes of the heads of queries and keys");
    Term q = heads.Reshape({0, 0, -4, heads_, q_heads_ / heads_, 0});
    std::vector<Term> sequences{q, key, value};
    if (gated_) sequences.push_back(Decay(key));
    if (delta_) {
      const Term beta = OneOrSize(Beside(5), 2, key, 2, "number of columns of beta");
      sequences.push_back(beta.As(kFloat32).Expand(3));
    }
    Term state = n_.Has(3) ? Before(key, value) : Zeros(DimOf(key, 3), DimOf(value, 3));
    std::vector<Term> rows;
    Term last = Run(sequences, state, &rows);
    Term y = (rows[0] * factor).Reshape({0, 0, -3, 0}).Reshape({0, 0, -3});
    return {y.As(dtype), last.As(n_.Has(3) ? n_.DType(3) : dtype)};
  }

 private:
  /// (batch, length, heads, size) of input `i`.
  Term Heads(size_t i, int64_t heads) {
    const int64_t* width = AsConstInt(In(n_, i).shape()[2]);
    if (width != nullptr && *width % heads != 0) n_.Invalid(StrCat(heads, " heads don't divide ", *width, " columns"));
    return WithHeads(Beside(i).As(kFloat32), heads, "the number of heads");
  }
  /// Input `i`, of the batch and the length of the queries.
  Term Beside(size_t i) {
    if (n_.Rank(i) != 3) n_.Invalid(StrCat("input ", i, " has rank ", n_.Rank(i), ", expected 3"));
    return i == 0
               ? In(n_, 0)
               : OfSameSize(In(n_, i), {{0, 0}, {1, 1}}, In(n_, 0), "batches or lengths beside those of the queries");
  }
  Term Decay(const Term& key) { return OneOrSize(Heads(4, heads_), 3, key, 3, "size of the decay of a head"); }
  /// The state before.
  Term Before(const Term& key, const Term& value) {
    const Term state =
        OfSameSize(In(n_, 3), {{0, 0}, {1, 2}, {2, 3}}, key, "sizes of the state beside those of the keys");
    return OfSameSize(state, {{3, 3}}, value, "sizes of the state beside those of the values").As(kFloat32);
  }
  Term Zeros(const Term& keys, const Term& values) {
    Term batch = DimOf(In(n_, 0), 0);
    return Full(Term(n_, n_.Scalar(kFloat32, 0)), Stack({batch, IntNum(n_, heads_), keys, values}));
  }
  /// The state after one step, and what it reads: (batch, heads, group, values).
  std::pair<Term, Term> Step(Term state, const std::vector<Term>& at) {
    size_t next = 3;
    Term v = at[2];
    if (gated_) state = state * at[next++].Op("exp").Expand(3);
    if (delta_) v = at[next] * (v - (state * at[1].Expand(3)).Sum({2}));
    state = state + at[1].Expand(3) * v.Expand(2);
    return {state, (state.Expand(2) * at[0].Expand(4)).Sum({3})};
  }
  /// All steps; `rows`: what they read, (batch, steps, ..).
  Term Run(const std::vector<Term>& sequences, Term state, std::vector<Term>* rows) {
    constexpr int64_t kMaxUnrolled = 16;
    const int64_t* steps = AsConstInt(sequences[0].shape()[1]);
    if (steps != nullptr && *steps > 0 && *steps <= kMaxUnrolled) {
      std::vector<Term> read;
      for (int64_t t = 0; t < *steps; ++t) {
        std::vector<Term> at;
        for (const Term& sequence : sequences) at.push_back(sequence.Slice(1, t, t + 1).Squeeze({1}));
        auto [after, row] = Step(state, at);
        state = after;
        read.push_back(row.Expand(1));
      }
      rows->push_back(Concat(read, 1));
      return state;
    }
    std::vector<Expr> carried{state};
    carried.insert(carried.end(), sequences.begin(), sequences.end());
    auto trip = [&](const std::vector<Expr>& values, const Expr& number) {
      std::vector<Term> at;
      for (size_t i = 1; i < values.size(); ++i) at.push_back(Term(n_, values[i]).Take(Term(n_, number), 1));
      auto [after, row] = Step(Term(n_, values[0]), at);
      LoopTrip result;
      result.carried = values;
      result.carried[0] = after;
      result.rows = {row};
      return result;
    };
    std::vector<Expr> all = ImportCountedLoop(n_, carried, DimOf(sequences[0], 1), trip);
    rows->push_back(Term(n_, all.back()).Permute({1, 0, 2, 3, 4}));
    return Term(n_, all[0]);
  }

  NodeImport& n_;
  std::string rule_;
  int64_t q_heads_ = 0, heads_ = 0;
  bool gated_ = false, delta_ = false;
};

std::vector<Expr> ImportLinearAttention(NodeImport& n) { return LinearAttention(n).Import(); }

/// Scores and probabilities pass through graphs that the node has as attributes.
Expr ImportFlexAttention(NodeImport& n) {
  for (size_t i = 0; i < 3; ++i) {
    if (n.Rank(i) != 4) n.Invalid("Q, K and V have to have rank 4");
  }
  Term q = In(n, 0), k = In(n, 1), v = In(n, 2);
  k = OfSameSize(k, {{0, 0}}, q, "batches of Q and K");
  v = OfSameSize(v, {{0, 0}, {1, 1}, {2, 2}}, k, "batches, heads or lengths of K and V");
  auto repeated = [&](const Term& t) { return Term(n, RepeatHeads(n, t, q)); };
  const int64_t* size = AsConstInt(q.shape()[3]);
  Term factor = q.Number(1);
  if (n.HasAttr("scale") || size != nullptr) {
    const double scale = n.HasAttr("scale") ? n.Float("scale") : 1 / std::sqrt(static_cast<double>(*size));
    factor = q.Number(std::sqrt(static_cast<double>(static_cast<float>(scale))));
  } else {
    factor = (1.0 / DimOf(q, 3).As(kFloat32).Op("sqrt")).Op("sqrt").As(q.dtype());
  }
  DataType precision = q.dtype() == DataType::Float(64) ? q.dtype() : kFloat32;
  if (n.HasAttr("softmax_precision")) precision = n.TypeAttr("softmax_precision");
  auto product = [&](const Term& a, const Term& b) { return Term(n, MatMulAnyRank(n, a, b)); };
  auto changed = [&](const char* name, const Term& t) {
    if (!n.HasAttr(name)) return t;
    std::vector<Expr> outputs = n.Subgraph(name, {t});
    if (outputs.size() != 1) n.Invalid(StrCat("'", name, "' has to give one output"));
    if (onnx::TypeOf(outputs[0])->dtype != t.dtype())
      n.Invalid(StrCat("'", name, "' gives ", onnx::TypeOf(outputs[0])->dtype, ", expected ", t.dtype()));
    return Term(n, outputs[0]).As(precision);
  };
  Term scores = product(q * factor, (repeated(k) * factor).Permute({0, 1, 3, 2})).As(precision);
  Term probability = changed("score_mod", scores).Op("nn.softmax", {{"axis", int64_t{3}}});
  return product(changed("prob_mod", probability), repeated(v).As(precision)).As(v.dtype());
}

}  // namespace

void RegisterStateRules(RuleTable& table) {
  table.Add1("SwiGLU", {28}, ImportSwiGlu);
  table.Add("CausalConvWithState", {27}, ImportCausalConv);
  table.Add1("TensorScatter", {24}, ImportTensorScatter);
  table.Add("LinearAttention", {27}, ImportLinearAttention);
  table.Add1("ai.onnx.preview.FlexAttention", {1}, ImportFlexAttention);
}

}  // namespace treadle::onnx
