// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention and rotary position embedding, out of matrix products and softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/compose.h"
#include "frontend/onnx/group_query_attention.h"
#include "frontend/onnx/matmul.h"
#include "frontend/onnx/rules.h"
#include "treadle/ir/structural.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

/// Inputs: Q, K, V, mask, past key and value (opset 24: also the number of keys in use per sample). Shapes are
/// [batch, heads, sequence, size], or [batch, sequence, heads * size] with the numbers of heads as attributes.
class Attention {
 public:
  explicit Attention(NodeImport& n)
      : n_(n),
        result_(n.DType(0)),
        dtype_(result_.bits() < 32 ? DataType::Float(32) : result_),
        flat_(n.Rank(0) == 3),
        queries_(IntNum(n, 0)),
        keys_(IntNum(n, 0)),
        past_(IntNum(n, 0)) {}
  std::vector<Expr> Import();

 private:
  Expr Heads(size_t i, const char* attribute);
  Expr WithPast(const Expr& value, size_t past);
  Expr RootOfScale(const Expr& q);
  /// Whether few queries of known number meet keys and values whose heads are known: a step of a decoder.
  bool IsStep(const Expr& q, const Expr& key, const Expr& value);
  Expr StepProduct(const Expr& left, const Expr& kept, bool transposed);
  /// bool, broadcastable to the scores: which keys a query may see by position; null: all.
  Expr AllowedPositions();
  Expr PaddedMask();
  Expr Masked(Expr scores);
  Expr Num(double value) { return n_.Scalar(dtype_, value); }
  Expr Both(const Expr& a, const Expr& b) {
    return !a.defined() ? b : !b.defined() ? a : n_.Call("logical_and", {a, b});
  }
  bool HasLengths() const { return n_.version() >= 24 && n_.Has(6); }

  NodeImport& n_;
  DataType result_;  ///< of the operands and results
  DataType dtype_;   ///< of the computation: at least float32
  bool flat_;
  Term queries_, keys_, past_;  ///< numbers of them, int64
  PrimExpr keys_dim_;
  Expr lengths_;  ///< of keys in use
  bool masked_ = false;
};

Expr Attention::Heads(size_t i, const char* attribute) {
  Expr x = n_.In(i);
  if (!flat_) {
    if (RankOf(x) != 4) n_.Invalid("Q, K and V have to have the same rank, 3 or 4");
    n_.Ignore({attribute});
    return x;
  }
  const int64_t heads = n_.Int(attribute);
  const int64_t* size = RankOf(x) == 3 ? AsConstInt(TypeOf(x)->shape[2]) : nullptr;
  if (RankOf(x) != 3 || heads < 1 || (size != nullptr && *size % heads != 0)) {
    n_.Invalid(StrCat("'", attribute, "' is ", heads, ", which doesn't fit the operand"));
  }
  return n_.Transpose(WithHeads(Term(n_, x), heads, StrCat("'", attribute, "'").c_str()), {0, 2, 1, 3});
}

Expr Attention::WithPast(const Expr& value, size_t past) {
  if (!n_.Has(past)) return value;
  if (n_.Rank(past) != 4) n_.Invalid("past keys and values have to have rank 4");
  past_ = DimOf(In(n_, past), 2);
  return n_.Concat({n_.In(past), value}, 2);
}

Expr Attention::AllowedPositions() {
  bool causal = n_.Flag("is_causal", false);
  int64_t left = n_.Int("left_window_size", -1), right = n_.Int("right_window_size", -1);
  if (left < -1 || right < -1) n_.Invalid("a window size is negative");
  if (causal) right = right < 0 ? 0 : std::min<int64_t>(right, 0);
  Expr allowed;
  if (left >= 0 || right >= 0) {
    // Distance of key j from query i, which is at position offset + i. The offset may differ by sample.
    const DataType type = HasLengths() ? n_.DType(6) : DataType::Int(64);
    Term offset = HasLengths() ? queries_ * -1.0 : past_;
    Term distance = Iota(keys_).Expand(0) - Iota(queries_).Expand(1) - offset;
    Expr from_query = n_.Cast(distance.Expand(0, 2), type);
    if (HasLengths()) from_query = n_.Call("subtract", {from_query, n_.ExpandDims(lengths_, 1, 3)});
    if (right >= 0) allowed = n_.Call("less_equal", {from_query, n_.Scalar(type, static_cast<double>(right))});
    if (left >= 0) {
      Expr near = n_.Call("greater_equal", {from_query, n_.Scalar(type, -static_cast<double>(left))});
      allowed = Both(allowed, near);
    }
  }
  if (!HasLengths()) return allowed;
  Expr key = n_.Cast(Iota(keys_).Expand(0, 3), n_.DType(6));
  return Both(allowed, n_.Call("less", {key, n_.ExpandDims(lengths_, 1, 3)}));
}

/// The mask with as many columns as there are keys: what it doesn't mention is masked.
Expr Attention::PaddedMask() {
  Expr mask = n_.In(3);
  int rank = RankOf(mask);
  if (rank < 1) n_.Invalid("the mask is a scalar");
  const PrimExpr dim = TypeOf(mask)->shape[static_cast<size_t>(rank - 1)];
  const int64_t *columns = AsConstInt(dim), *keys = AsConstInt(keys_dim_);
  const bool known = columns != nullptr && keys != nullptr;
  if (known && *columns >= *keys) return mask;
  if (columns != nullptr && *columns == 1 && n_.version() < 24) return mask;
  if (!known && (StructuralEqual(dim, keys_dim_) || n_.version() < 24)) return mask;
  DataType type = TypeOf(mask)->dtype;
  Expr masked = n_.Scalar(type, type.is_bool() ? 0 : kMinusInf);
  if (known) {
    Ints before(static_cast<size_t>(rank), 0), after(static_cast<size_t>(rank), 0);
    after.back() = *keys - *columns;
    return n_.Pad(mask, before, after, masked, "constant");
  }
  std::vector<Term> widths(static_cast<size_t>(2 * rank), IntNum(n_, 0));
  widths.back() = Max(keys_ - DimOf(Term(n_, mask), rank - 1), 0);
  return n_.Call("dyn.nn.pad", {mask, Stack(widths).Reshape({rank, 2}), masked},
                 {{"pad_mode", std::string("constant")}});
}

Expr Attention::Masked(Expr scores) {
  Expr allowed = AllowedPositions();
  if (n_.Has(3)) {
    Expr mask = PaddedMask();
    if (TypeOf(mask)->dtype.is_bool()) {
      allowed = Both(allowed, mask);
    } else {
      scores = n_.Call("add", {scores, n_.Cast(mask, dtype_)});
    }
    masked_ = true;
  }
  if (!allowed.defined()) return scores;
  masked_ = true;
  return n_.Call("where", {allowed, scores, Num(kMinusInf)});
}

/// What queries and keys are multiplied by each.
Expr Attention::RootOfScale(const Expr& q) {
  const int64_t* size = AsConstInt(TypeOf(q)->shape[3]);
  if (!n_.HasAttr("scale") && size == nullptr) {
    return 1.0 / DimOf(Term(n_, q), 3).As(dtype_).Op("sqrt").Op("sqrt");
  }
  const double scale = n_.HasAttr("scale") ? n_.Float("scale") : 1 / std::sqrt(static_cast<double>(*size));
  if (!(scale >= 0)) n_.Unsupported(StrCat("a scale of ", scale, " isn't implemented"));
  return Num(std::sqrt(scale));
}

bool Attention::IsStep(const Expr& q, const Expr& key, const Expr& value) {
  constexpr int64_t kFew = 8;  // more are worth a kernel of their own, which takes one head of keys for each of queries
  auto dim = [](const Expr& x, size_t i) {
    const int64_t* size = AsConstInt(TypeOf(x)->shape[i]);
    return size == nullptr ? int64_t{-1} : *size;
  };
  const int64_t batch = dim(q, 0), heads = dim(q, 1), kept = dim(key, 1), queries = dim(q, 2);
  return batch > 0 && dim(key, 0) == batch && dim(value, 0) == batch && kept > 0 && dim(value, 1) == kept &&
         heads % kept == 0 && queries > 0 && queries <= kFew;
}

/// `left` [batch, heads, queries, ..] times `kept` [batch, kept heads, .., ..] or its transpose: the queries of heads
/// that share one of keys are rows of one product, so that what is kept is read once and isn't moved.
Expr Attention::StepProduct(const Expr& left, const Expr& kept, bool transposed) {
  const Ints known = {n_.StaticDim(left, 0), n_.StaticDim(left, 1), n_.StaticDim(left, 2), n_.StaticDim(kept, 1)};
  const int64_t group = known[1] / known[3];
  const Expr rows = n_.Reshape(n_.Reshape(left, {0, -4, known[3], group, 0, 0}), {-3, -3, 0});
  const Expr product = n_.Call("nn.batch_matmul", {rows, n_.Reshape(kept, {-3, 0, 0})},
                               {{"transpose_a", false}, {"transpose_b", transposed}});
  return n_.Reshape(n_.Reshape(product, {-4, known[0], known[3], -4, group, known[2], 0}), {0, -3, 0, 0});
}

std::vector<Expr> Attention::Import() {
  if (n_.Has(4) != n_.Has(5)) n_.Invalid("past key and value have to be given together");
  if (n_.Has(4) && HasLengths()) n_.Invalid("past keys and numbers of keys in use can't be combined");
  Expr q = Heads(0, "q_num_heads");
  const Term key = OfSameSize({n_, Heads(1, "kv_num_heads")}, {{0, 0}}, {n_, q}, "batches of queries and keys");
  const Term value = OfSameSize({n_, Heads(2, "kv_num_heads")}, {{0, 0}, {1, 1}, {2, 2}}, key,
                                "batches, heads or lengths of keys and values");
  Expr present_key = WithPast(key, 4);
  Expr present_value = WithPast(value, 5);
  queries_ = DimOf(Term(n_, q), 2);
  keys_ = DimOf(Term(n_, present_key), 2);
  if (HasLengths()) lengths_ = CheckedValues(n_, n_.In(6), "at_most", keys_, "number of keys in use");
  keys_dim_ = TypeOf(present_key)->shape[2];
  auto repeated = [&](const Expr& x) { return RepeatHeads(n_, x, q); };
  Expr factor = RootOfScale(q);
  auto scaled = [&](const Expr& x) { return n_.Call("multiply", {n_.Cast(x, dtype_), factor}); };
  const bool step = IsStep(q, present_key, present_value);
  Expr raw = step ? StepProduct(scaled(scaled(q)), n_.Cast(present_key, dtype_), true)
                  : MatMulAnyRank(n_, scaled(q), scaled(n_.Transpose(repeated(present_key), {0, 1, 3, 2})));
  Expr capped = raw;
  double cap = n_.Float("softcap", 0.0);
  if (cap > 0) capped = n_.Call("multiply", {n_.Call("tanh", {n_.Call("divide", {raw, Num(cap)})}), Num(cap)});
  Expr scores = Masked(capped);
  DataType precision = n_.HasAttr("softmax_precision") ? n_.TypeAttr("softmax_precision") : dtype_;
  Expr probability = n_.Cast(n_.Call("nn.softmax", {n_.Cast(scores, precision)}, {{"axis", int64_t{3}}}), dtype_);
  if (masked_) {  // a query that may see no key gets zeros
    Expr best = n_.Call("max", {scores}, {{"axis", Ints{3}}, {"keepdims", true}});
    probability = n_.Call("where", {n_.Call("equal", {best, Num(kMinusInf)}), Num(0), probability});
  }
  Expr y = step ? StepProduct(probability, n_.Cast(present_value, dtype_), false)
                : MatMulAnyRank(n_, probability, n_.Cast(repeated(present_value), dtype_));
  if (flat_) {
    y = n_.Reshape(n_.Transpose(y, {0, 2, 1, 3}), {0, 0, -3});
  }
  int64_t mode = n_.Int("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) n_.Invalid(StrCat("'qk_matmul_output_mode' is ", mode));
  Expr inner = mode == 0 ? raw : mode == 1 ? capped : mode == 2 ? scores : probability;
  return {n_.Cast(y, result_), present_key, present_value, n_.Cast(inner, result_)};
}

std::vector<Expr> ImportAttention(NodeImport& n) { return Attention(n).Import(); }

/// Inputs: X [batch, heads, sequence, size] or [batch, sequence, heads * size]; cosines and sines by position, or by
/// batch and sequence; positions.
Expr ImportRotaryEmbedding(NodeImport& n) {
  const bool flat = n.Rank(0) == 3, interleaved = n.Flag("interleaved", false);
  Expr x = n.In(0);
  if (flat) {
    const int64_t heads = n.Int("num_heads"), *columns = AsConstInt(TypeOf(x)->shape[2]);
    if (heads < 1 || (columns != nullptr && *columns % heads != 0)) n.Invalid(StrCat("'num_heads' is ", heads));
    x = WithHeads(Term(n, x), heads, "'num_heads'");
  } else {
    if (n.Rank(0) != 4) n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected 3 or 4"));
    n.Ignore({"num_heads"});
    x = n.Transpose(x, {0, 2, 1, 3});
  }
  const int64_t* size = AsConstInt(TypeOf(x)->shape[3]);
  int64_t rotated = n.Int("rotary_embedding_dim", 0);
  if (rotated == 0 && size != nullptr) rotated = *size;
  const bool known = rotated != 0 || size != nullptr;
  if (known && (rotated < 2 || rotated % 2 != 0 || (size != nullptr && rotated > *size))) {
    n.Invalid(StrCat("'rotary_embedding_dim' is ", rotated));
  }
  if (n.Has(3) && n.Rank(3) != 2) n.Invalid(StrCat("'position_ids' has rank ", n.Rank(3), ", expected 2"));
  Term half = IntNum(n, rotated / 2);
  if (!known) {
    const Term columns = DimOf(Term(n, x), 3);
    half = AtLeast(FloorDiv(columns, 2), 1, "half of the columns of a head");
    half = FloorDiv(EqualTo(columns, half * 2, "columns of a head, which are rotated in pairs"), 2);
  }
  auto cache = [&](size_t i) {
    Term values = In(n, i);
    const int64_t* columns = values.rank() > 0 ? AsConstInt(values.shape().back()) : nullptr;
    if (values.rank() != (n.Has(3) ? 2 : 3) || (known && columns != nullptr && *columns != rotated / 2)) {
      n.Invalid("cosines or sines have the wrong shape");
    }
    if (n.Has(3)) {
      Term positions = OfSameSize(In(n, 3), {{0, 0}, {1, 1}}, Term(n, x), "the samples and steps, and their positions");
      positions = AtLeast(positions, 0, "position");
      values = values.Op("take", positions, {{"axis", int64_t{0}}, {"mode", std::string("error")}});
    } else {
      for (int d : {0, 1})
        values = OneOrSize(values, d, Term(n, x), d, "the caches of cosines and sines, and the operand");
    }
    if (known && columns != nullptr) return values.Expand(2);
    const Term width = EqualTo(DimOf(values, 2), half, "width of the caches of cosines and sines");
    return SliceAxis(values, 2, IntNum(n, 0), width).Expand(2);
  };
  const Term cos = cache(1), sin = cache(2);
  const Expr y = Rotated(n, x, cos, sin, interleaved);
  return flat ? n.Reshape(y, {0, 0, -3}) : n.Transpose(y, {0, 2, 1, 3});
}

}  // namespace

Expr RepeatHeads(NodeImport& n, const Expr& x, const Expr& q) {
  const PrimExpr of_q = TypeOf(q)->shape[1], of_x = TypeOf(x)->shape[1];
  const int64_t *queries = AsConstInt(of_q), *heads = AsConstInt(of_x);
  if (queries == nullptr || heads == nullptr) {
    if (!IsAnyDim(of_q) && StructuralEqual(of_q, of_x)) return x;
    Term count = DimOf(Term(n, q), 1);
    const Term kept = AtLeast(DimOf(Term(n, x), 1), 1, "number of heads of keys"),
               rest = count - FloorDiv(count, kept) * kept;
    count = count + Term(n, CheckedValues(n, rest, "at_most", IntNum(n, 0), "heads of queries left over"));
    return Term(n, x).Take(FloorDiv(Iota(count) * kept, Max(count, 1)), 1);
  }
  if (*heads < 1 || *queries % *heads != 0) n.Invalid(StrCat(*queries, " heads of queries and ", *heads, " of keys"));
  const int64_t group = *queries / *heads;
  return group == 1 ? x : n.Call("repeat", {x}, {{"repeats", group}, {"axis", int64_t{1}}});
}

void RegisterAttentionRules(RuleTable& table) {
  table.Add("Attention", {23, 24, 25}, ImportAttention);
  table.Add1("RotaryEmbedding", {23}, ImportRotaryEmbedding);
}

}  // namespace treadle::onnx
