// SPDX-License-Identifier: Apache-2.0
// FuseAttention: what exporters write for attention - a product of queries and keys, a scale, a mask, softmax, a
// product with the values - becomes one operator, which needs no memory for the scores. In a decoder's step, of one
// query per head, heads of keys and values that are repeated for groups of queries' heads (Ainslie et al. 2023, "GQA")
// are read where they are: the queries of a group are the rows of one product.
#include "passes/fuse_attention.h"

#include <optional>
#include <utility>

#include "passes/pass_util.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/attrs/attention.h"
#include "treadle/ops/attrs/transform.h"

namespace treadle::relay {
namespace {

const DataType kWide = DataType::Float(32);

/// Two matrices of a product, the second as (.., n, k).
struct Product {
  Expr left, right;
};

/// What is found below a softmax.
struct Scores {
  const CallNode* product = nullptr;  ///< of queries and keys
  double scale = 1;
  Expr mask;  ///< null: none
  bool zero_masked_rows = false;
};

/// p of where(isnan(p), 0, p), by which exporters give 0 to queries that see no key; null: it is something else.
const CallNode* WithoutNan(const CallNode* call) {
  if (OpName(call) != "where") return nullptr;
  const CallNode* test = AsCallOf(call->args[0], "isnan");
  const bool keeps = test != nullptr && test->args[0].same_as(call->args[2]) && UniformValue(call->args[1]) == 0.0;
  return keeps && TypesEqual(call->args[2]->checked_type(), call->checked_type()) ? call->args[2].as<CallNode>()
                                                                                  : nullptr;
}

/// Formats that attention is found in. Products of all of them are summed in float32.
bool IsFloat(DataType dtype) { return dtype == kWide || dtype.is_float16() || dtype.is_bfloat16(); }

bool IsFloatMatrix(const TensorTypeNode* type) {
  return type != nullptr && IsFloat(type->dtype) && type->shape.size() >= 2;
}

/// `e` in float32, of operands in the format of `pre`.
Expr Widened(const Expr& e, const Expr& pre) { return TensorTypeOf(pre)->dtype == kWide ? e : ops::MakeCast(e, kWide); }

/// Dimensions of the last two axes.
Array<PrimExpr> MatrixOf(const TensorTypeNode* type) {
  size_t rank = type->shape.size();
  return {type->shape[rank - 2], type->shape[rank - 1]};
}

/// -1 where it isn't known.
int64_t KnownSize(const PrimExpr& dim) { return AsConstInt(dim) == nullptr ? -1 : *AsConstInt(dim); }

/// Known to be the same: sizes that aren't known are the same as no other.
bool SameSize(const PrimExpr& a, const PrimExpr& b) { return !IsAnyDim(a) && !IsAnyDim(b) && ShapesEqual({a}, {b}); }
bool SameMatrix(const TensorTypeNode* a, const TensorTypeNode* b) {
  const Array<PrimExpr> x = MatrixOf(a), y = MatrixOf(b);
  return SameSize(x[0], y[0]) && SameSize(x[1], y[1]);
}

/// The same type, but that the last size of `whole` may not be known.
bool SameButKeys(const TensorTypeNode* part, const TensorTypeNode* whole) {
  const size_t rank = whole->shape.size();
  if (part == nullptr || part->dtype != whole->dtype || part->shape.size() != rank) return false;
  for (size_t i = 0; i < rank; ++i) {
    const bool open = i + 1 == rank && IsAnyDim(whole->shape[i]);
    if (!open && !SameSize(part->shape[i], whole->shape[i])) return false;
  }
  return true;
}

/// Whether a reshape leaves the last two dimensions as they are: by their sizes, or, where those aren't known, because
/// its attribute copies them (-2 takes all dimensions that are left, -3 joins two, -4 parts one, 0 copies one).
bool KeepsMatrix(const CallNode* reshape) {
  const auto *to = reshape->type_as<TensorTypeNode>(), *from = TensorTypeOf(reshape->args[0]);
  if (!IsFloatMatrix(to) || !IsFloatMatrix(from)) return false;
  if (SameMatrix(to, from)) return true;
  if (OpName(reshape) != "reshape") return false;
  const auto* attrs = reshape->attrs_as<ops::ReshapeAttrs>();
  std::vector<int64_t> codes;
  for (const PrimExpr& code : attrs->newshape) codes.push_back(KnownSize(code));
  if (codes.empty() || codes.back() != -2) return false;
  size_t taken = 0;
  for (size_t i = 0; i + 1 < codes.size(); ++i) {
    if (codes[i] != -4 && codes[i] != -3 && (codes[i] != 0 || attrs->allowzero)) return false;
    taken += codes[i] == -3 ? 2 : 1;
    if (codes[i] == -4) i += 2;  // the two sizes
  }
  return taken + 2 <= from->shape.size();
}

bool SwapsMatrix(const CallNode* transpose) {
  const auto& given = transpose->attrs_as<ops::TransposeAttrs>()->axes;
  if (!given) return false;
  const std::vector<int64_t>& axes = *given;
  const size_t rank = axes.size();
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (axes[i] != static_cast<int64_t>(i)) return false;
  }
  return rank >= 2 && axes[rank - 1] + 2 == static_cast<int64_t>(rank);
}

/// Heads of keys or values before each is repeated for a group of queries' heads.
struct SharedHeads {
  Expr once;  ///< (batch, count, .., ..), or (batch, count, 1, .., ..)
  int64_t count = 0, group = 0;
  bool transposed = false;  ///< whether the matrices are those of the operand transposed
  double scale = 1;         ///< factor of the operand
};

/// Of an operand of a product; nothing where no repeated heads are seen.
std::optional<SharedHeads> FindSharedHeads(Expr e) {
  SharedHeads shared;
  auto found = [&](const Expr& once, const TensorTypeNode* repeated) -> std::optional<SharedHeads> {
    const auto* type = TensorTypeOf(once);
    if (type == nullptr || type->shape.size() != repeated->shape.size()) return std::nullopt;
    for (size_t i = 0; i < type->shape.size(); ++i) {
      const bool heads = i == (type->shape.size() == 4 ? 1 : 2);
      if (!heads && !SameSize(type->shape[i], repeated->shape[i])) return std::nullopt;
    }
    shared.once = once;
    shared.count = KnownSize(type->shape[1]);
    if (shared.count < 1) return std::nullopt;
    if (type->shape.size() == 4) {
      shared.group = KnownSize(repeated->shape[1]) / shared.count;
    } else if (KnownSize(type->shape[2]) == 1) {
      shared.group = KnownSize(repeated->shape[2]);
    }
    return shared.group > 0 ? std::optional(shared) : std::nullopt;
  };
  while (const auto* call = e.as<CallNode>()) {
    const std::string& name = OpName(call);
    const auto* type = call->type_as<TensorTypeNode>();
    const size_t rank = type == nullptr ? 0 : type->shape.size();
    if (name == "repeat" && rank == 4 && call->attrs_as<ops::RepeatAttrs>()->axis == 1)
      return found(call->args[0], type);
    const bool repeats = name == "broadcast_to" || name == "dyn.broadcast_to" || name == "tile" || name == "dyn.tile";
    if (repeats && rank == 5) return found(call->args[0], type);
    if (name == "multiply" && UniformValue(call->args[1]) && SameButKeys(TensorTypeOf(call->args[0]), type)) {
      shared.scale *= *UniformValue(call->args[1]);
    } else if (name == "transpose" && SwapsMatrix(call)) {
      shared.transposed = !shared.transposed;
    } else if ((name != "reshape" && name != "dyn.reshape") || !KeepsMatrix(call)) {
      break;
    }
    e = call->args[0];
  }
  return std::nullopt;
}

class AttentionFuser : public MixedModeMutator {
 public:
  explicit AttentionFuser(const Expr& root) : uses_(CountUses(root)) {}

 private:
  using MixedModeMutator::Rewrite_;

  /// All is matched on the expressions before the rewrite, which have types; operands are replaced then.
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    if (OpName(pre) != "nn.batch_matmul" || !IsPlain(pre)) return post;
    const CallNode* softmax = SkipReshapesAndCasts(pre->args[0]).as<CallNode>();
    int uses = 1;
    if (const CallNode* cleared = softmax == nullptr ? nullptr : WithoutNan(softmax); cleared != nullptr) {
      if (uses_[softmax] != 1) return post;
      softmax = cleared;
      uses = 2;
    }
    if (softmax == nullptr || OpName(softmax) != "nn.softmax" || uses_[softmax] != uses) return post;
    const auto* type = TensorTypeOf(softmax->args[0]);
    if (!IsFloatMatrix(type)) return post;
    if (PositiveAxis(softmax->attrs_as<ops::SoftmaxAttrs>()->axis, type->shape.size()) + 1 !=
        static_cast<int>(type->shape.size())) {
      return post;
    }
    Scores scores = FindScores(softmax->args[0]);
    if (scores.product == nullptr) return post;
    scores.zero_masked_rows = uses == 2;
    // A row has a score for each key, unless a mask broadcasts one key's: then values are as many as keys all the same.
    const PrimExpr keys = MatrixOf(scores.product->type_as<TensorTypeNode>())[1];
    if (!SameSize(keys, type->shape.back()) && !SameSize(keys, KeysOf(pre))) return post;
    Array<PrimExpr> sizes = type->shape;
    sizes.Set(sizes.size() - 1, keys);
    const TensorType all(sizes, type->dtype);
    if (scores.mask.defined() && !IsMask(scores.mask, all.get())) return post;
    const std::vector<SharedHeads> shared = HeadsOfGroups(scores, pre, all.get());
    if (!IsWorthIt(scores, pre, shared.empty() ? 1 : shared[0].group)) return post;
    Expr fused = Fused(pre, scores, all.get(), shared);
    return fused.defined() ? fused : post;
  }

  /// A product of matrices of one format with equal batches and a first operand as it is, and elements.
  static bool IsPlain(const CallNode* call) {
    const auto* attrs = call->attrs_as<ops::BatchMatmulAttrs>();
    const auto *a = TensorTypeOf(call->args[0]), *b = TensorTypeOf(call->args[1]);
    if (attrs->transpose_a || !IsFloatMatrix(a) || !IsFloatMatrix(b) || a->shape.size() != b->shape.size())
      return false;
    for (size_t i = 0; i < a->shape.size(); ++i) {
      if (tir::is_zero(a->shape[i]) || tir::is_zero(b->shape[i])) return false;
      if (i + 2 < a->shape.size() && !SameSize(a->shape[i], b->shape[i])) return false;
    }
    const auto* out = call->type_as<TensorTypeNode>();
    return out != nullptr && a->dtype == b->dtype && out->dtype == a->dtype;
  }

  /// The number of values of the product with them.
  static PrimExpr KeysOf(const CallNode* mixed) {
    const size_t keys = mixed->attrs_as<ops::BatchMatmulAttrs>()->transpose_b ? 1 : 0;
    return MatrixOf(TensorTypeOf(mixed->args[1]))[keys];
  }

  /// The heads of keys and values that groups of one query each share; none where there are no such groups.
  static std::vector<SharedHeads> HeadsOfGroups(const Scores& scores, const CallNode* mixed,
                                                const TensorTypeNode* type) {
    if (type->shape.size() != 4 || KnownSize(type->shape[2]) != 1) return {};
    if (scores.mask.defined()) {
      const Array<PrimExpr>& mask = TensorTypeOf(scores.mask)->shape;
      if (mask.size() > 2 && KnownSize(mask[mask.size() - 3]) != 1) return {};
    }
    std::vector<SharedHeads> shared;
    for (const CallNode* product : {scores.product, mixed}) {
      const auto heads = FindSharedHeads(product->args[1]);
      // What is repeated may be parted in other ways than into samples and heads.
      if (!heads || heads->count * heads->group != KnownSize(type->shape[1])) return {};
      if (!SameSize(TensorTypeOf(heads->once)->shape[0], type->shape[0])) return {};
      shared.push_back(*heads);
    }
    const bool same = shared[0].count == shared[1].count && shared[1].scale == 1;
    return same ? shared : std::vector<SharedHeads>();
  }

  /// Reshapes that only group the batch, and changes of format: models of 16 bits may state softmax in float32.
  Expr SkipReshapesAndCasts(Expr e) {
    for (;;) {
      const auto* call = e.as<CallNode>();
      if (call == nullptr || uses_[call] > 1) return e;
      const std::string& name = OpName(call);
      const bool reshape = (name == "reshape" || name == "dyn.reshape") && KeepsMatrix(call);
      const bool cast = name == "cast" && IsFloatMatrix(TensorTypeOf(e)) && IsFloatMatrix(TensorTypeOf(call->args[0]));
      if (!reshape && !cast) return e;
      e = call->args[0];
    }
  }

  /// From the operand of a softmax down to the product: [mask +] [scale *] product.
  Scores FindScores(Expr e) {
    Scores scores;
    for (;;) {
      e = SkipReshapesAndCasts(e);
      const auto* call = e.as<CallNode>();
      if (call == nullptr || uses_[call] != 1) return {};
      const std::string& name = OpName(call);
      if (name == "nn.batch_matmul") {
        if (!IsPlain(call)) return {};
        scores.product = call;
        return scores;
      }
      if (name == "add" && !scores.mask.defined() && scores.scale == 1) {
        size_t inner = LeadsToProduct(call->args[0]) ? 0 : 1;
        if (!SameButKeys(TensorTypeOf(call->args[inner]), call->type_as<TensorTypeNode>())) return {};
        scores.mask = call->args[1 - inner];
        e = call->args[inner];
      } else if (name == "multiply" || name == "divide") {
        size_t inner = name == "divide" || UniformValue(call->args[1]) ? 0 : 1;
        auto factor = UniformValue(call->args[1 - inner]);
        if (!factor || *factor == 0 || !SameButKeys(TensorTypeOf(call->args[inner]), call->type_as<TensorTypeNode>()))
          return {};
        scores.scale *= name == "divide" ? 1 / *factor : *factor;
        e = call->args[inner];
      } else {
        return {};
      }
    }
  }

  bool LeadsToProduct(Expr e) {
    for (;;) {
      const auto* call = SkipReshapesAndCasts(e).as<CallNode>();
      if (call == nullptr) return false;
      const std::string& name = OpName(call);
      if (name == "nn.batch_matmul") return true;
      if (name != "multiply" && name != "divide") return false;
      e = UniformValue(call->args[0]) ? call->args[1] : call->args[0];
    }
  }

  /// Whether it is known to broadcast to the scores, in all but their last dimension. That may have another name than
  /// the number of keys, or be known to nobody (a causal mask plus one that an input gives): the run compares both.
  static bool IsMask(const Expr& e, const TensorTypeNode* scores) {
    const auto* mask = TensorTypeOf(e);
    if (mask == nullptr || !IsFloat(mask->dtype) || mask->shape.empty()) return false;
    const size_t rank = mask->shape.size(), skip = scores->shape.size() - rank;
    if (rank > scores->shape.size()) return false;
    const PrimExpr &keys = scores->shape.back(), &masked = mask->shape.back();
    const bool open = AsConstInt(keys) == nullptr && AsConstInt(masked) == nullptr;
    if (!open && !SameSize(masked, keys)) return false;
    for (size_t i = 0; i + 1 < rank; ++i) {
      if (!tir::is_const_int(mask->shape[i], 1) && !SameSize(mask->shape[i], scores->shape[i + skip])) return false;
    }
    return true;
  }

  /// A few queries (a decoder's step) run on keys as they are, in vectors along their elements. `group`: queries that
  /// are rows of one product.
  static bool IsWorthIt(const Scores& scores, const CallNode* mixed, int64_t group) {
    constexpr int64_t kFewRows = 4, kVector = 8;
    const auto *query = TensorTypeOf(scores.product->args[0]), *result = mixed->type_as<TensorTypeNode>();
    bool is_static = true;
    for (const PrimExpr& dim : result->shape) {
      const int64_t* known = AsConstInt(dim);
      if (IsAnyDim(dim) || (known != nullptr && *known == 0)) return false;
      is_static = is_static && known != nullptr;
    }
    const int64_t *rows = AsConstInt(MatrixOf(query)[0]), *size = AsConstInt(MatrixOf(query)[1]);
    const int64_t* values = AsConstInt(MatrixOf(result)[1]);
    if (size == nullptr || values == nullptr) return false;
    is_static = is_static && AsConstInt(scores.product->type_as<TensorTypeNode>()->shape.back()) != nullptr;
    if (!is_static) {
      // Widening all keys takes longer than few queries save.
      const bool widened = TensorTypeOf(scores.product->args[1])->dtype != kWide;
      if (widened && group == 1 && rows != nullptr && *rows < kFewRows) return false;
      // These are for one kernel, of any number of queries. Fewer values would be mostly what fills vectors.
      return *values >= kVector;
    }
    return (rows != nullptr && *rows * group >= kFewRows) || (*size % kVector == 0 && *values % kVector == 0);
  }

  static bool SameBatch(const TensorTypeNode* a, const TensorTypeNode* b) {
    if (a->shape.size() != b->shape.size()) return false;
    for (size_t i = 0; i + 2 < a->shape.size(); ++i) {
      if (!SameSize(a->shape[i], b->shape[i])) return false;
    }
    return true;
  }

  /// `e`, of type `type`, with the batch dimensions of `like`, of which it has as many elements; null: that can't be
  /// written without knowing sizes.
  static Expr WithBatch(const Expr& e, const TensorTypeNode* type, const TensorTypeNode* like) {
    if (SameBatch(type, like)) return e;
    const size_t rank = like->shape.size();
    Array<PrimExpr> shape;
    bool is_static = IsStatic(type);
    for (size_t i = 0; i + 2 < rank; ++i) {
      shape.push_back(like->shape[i]);
      is_static = is_static && AsConstInt(like->shape[i]) != nullptr;
    }
    for (const PrimExpr& dim : MatrixOf(type)) shape.push_back(dim);
    if (is_static) return ops::MakeReshape(e, shape);
    if (type->shape.size() == 4 && rank == 3) return ops::MakeReshape(e, std::vector<int64_t>{-3, -2});
    const int64_t* heads = rank == 4 ? AsConstInt(like->shape[1]) : nullptr;
    if (type->shape.size() != 3 || heads == nullptr) return Expr();
    return ops::MakeReshape(e, std::vector<int64_t>{-4, -1, *heads, -2});
  }

  /// The operand (.., n, k), whichever way it was given; (.., k, n) if `k_first`. Null where its batch can't be
  /// written.
  Expr Operand(const CallNode* product, size_t i, const TensorTypeNode* scores, bool k_first) {
    Expr e = WithBatch(Mutate(product->args[i]), TensorTypeOf(product->args[i]), scores);
    const bool given_k_first = i == 0 ? false : !product->attrs_as<ops::BatchMatmulAttrs>()->transpose_b;
    if (!e.defined() || i == 0 || given_k_first == k_first) return e;
    std::vector<int64_t> axes;
    for (size_t d = 0; d < scores->shape.size(); ++d) axes.push_back(static_cast<int64_t>(d));
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    return ops::MakeTranspose(e, axes);
  }

  /// The heads of keys or values, (batch, heads, n, size).
  Expr OfGroups(const SharedHeads& heads, bool transposed) {
    Expr once = Mutate(heads.once);
    if (TensorTypeOf(heads.once)->shape.size() == 5) once = ops::MakeSqueeze(once, {2});
    return heads.transposed == transposed ? once : ops::MakeTranspose(once, {0, 1, 3, 2});
  }

  /// Null where batches can't be written.
  Expr Fused(const CallNode* mixed, const Scores& scores, const TensorTypeNode* type,
             const std::vector<SharedHeads>& shared) {
    auto transposes = [](const CallNode* product) { return product->attrs_as<ops::BatchMatmulAttrs>()->transpose_b; };
    Expr query = Operand(scores.product, 0, type, false), key, value;
    if (shared.empty()) {
      key = Operand(scores.product, 1, type, false);
      value = Operand(mixed, 1, type, true);
    } else {
      key = OfGroups(shared[0], !transposes(scores.product));
      value = OfGroups(shared[1], transposes(mixed));
    }
    if (!query.defined() || !key.defined() || !value.defined()) return Expr();
    const int64_t heads = shared.empty() ? 0 : KnownSize(type->shape[1]);
    auto regroup = [](const Expr& e, int64_t count, int64_t rows, const PrimExpr& size) {
      return ops::MakeReshape(e, std::vector<int64_t>{0, count, rows, KnownSize(size)});
    };
    if (!shared.empty()) {
      query = regroup(query, shared[0].count, shared[0].group, MatrixOf(TensorTypeOf(scores.product->args[0]))[1]);
    }
    // One zero does for scores whose number the run decides.
    const PrimExpr masked = AsConstInt(type->shape.back()) != nullptr ? type->shape.back() : PrimExpr(int64_t{1});
    const Expr mask =
        scores.mask.defined() ? Widened(Mutate(scores.mask), scores.mask) : ops::MakeZeros({masked}, kWide);
    query = Widened(query, scores.product->args[0]);
    key = Widened(key, scores.product->args[1]);
    value = Widened(value, mixed->args[1]);
    Expr result = ops::CallOp("nn.attention", {query, key, value, mask}, MakeAttrs<ops::AttentionAttrs>([&](auto& a) {
                                a.scale = scores.scale * (shared.empty() ? 1 : shared[0].scale);
                                a.zero_masked_rows = scores.zero_masked_rows;
                              }),
                              mixed->span);
    Array<PrimExpr> shape = type->shape;
    shape.Set(shape.size() - 1, mixed->type_as<TensorTypeNode>()->shape.back());
    if (!shared.empty()) result = regroup(result, heads, 1, shape.back());
    const auto* out = mixed->type_as<TensorTypeNode>();
    result = WithBatch(result, TensorType(shape, kWide).get(), out);
    return result.defined() && out->dtype != kWide ? ops::MakeCast(result, out->dtype) : result;
  }

  std::unordered_map<const Object*, int> uses_;
};

}  // namespace

namespace transform {

Pass FuseAttention() {
  return MutatorPass<AttentionFuser>({"FuseAttention", 3, {"InferType"}, "Attention becomes one operator"});
}

}  // namespace transform
}  // namespace treadle::relay
