// SPDX-License-Identifier: Apache-2.0
// FuseAttention: what exporters write for attention - a product of queries and keys, a scale, a mask, softmax, a
// product with the values - becomes one operator, which needs no memory for the scores.
#include "passes/fuse_attention.h"

#include <utility>

#include "passes/pass_util.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/attrs/attention.h"

namespace treadle::relay {
namespace {

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

bool IsFloatMatrix(const TensorTypeNode* type) {
  return type != nullptr && type->dtype == DataType::Float(32) && type->shape.size() >= 2;
}

/// Dimensions of the last two axes.
Array<PrimExpr> MatrixOf(const TensorTypeNode* type) {
  size_t rank = type->shape.size();
  return {type->shape[rank - 2], type->shape[rank - 1]};
}

/// Known to be the same: sizes that aren't known are the same as no other.
bool SameSize(const PrimExpr& a, const PrimExpr& b) { return !IsAnyDim(a) && !IsAnyDim(b) && ShapesEqual({a}, {b}); }
bool SameMatrix(const TensorTypeNode* a, const TensorTypeNode* b) {
  const Array<PrimExpr> x = MatrixOf(a), y = MatrixOf(b);
  return SameSize(x[0], y[0]) && SameSize(x[1], y[1]);
}

class AttentionFuser : public MixedModeMutator {
 public:
  explicit AttentionFuser(const Expr& root) : uses_(CountUses(root)) {}

 private:
  using MixedModeMutator::Rewrite_;

  /// All is matched on the expressions before the rewrite, which have types; operands are replaced then.
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    if (OpName(pre) != "nn.batch_matmul" || !IsPlain(pre)) return post;
    const CallNode* softmax = SkipReshapes(pre->args[0]).as<CallNode>();
    int uses = 1;
    if (const CallNode* cleared = softmax == nullptr ? nullptr : WithoutNan(softmax); cleared != nullptr) {
      if (uses_[softmax] != 1) return post;
      softmax = cleared;
      uses = 2;
    }
    if (softmax == nullptr || OpName(softmax) != "nn.softmax" || uses_[softmax] != uses) return post;
    const auto* type = TensorTypeOf(softmax->args[0]);
    if (!IsFloatMatrix(type) || !SameMatrix(type, TensorTypeOf(pre->args[0]))) return post;
    if (PositiveAxis(softmax->attrs_as<ops::SoftmaxAttrs>()->axis, type->shape.size()) + 1 !=
        static_cast<int>(type->shape.size())) {
      return post;
    }
    Scores scores = FindScores(softmax->args[0], type);
    if (scores.product == nullptr || !IsWorthIt(scores, pre)) return post;
    scores.zero_masked_rows = uses == 2;
    Expr fused = Fused(pre, scores, type);
    return fused.defined() ? fused : post;
  }

  /// A product of float32 matrices with equal batches and a first operand as it is.
  static bool IsPlain(const CallNode* call) {
    const auto* attrs = call->attrs_as<ops::BatchMatmulAttrs>();
    const auto *a = TensorTypeOf(call->args[0]), *b = TensorTypeOf(call->args[1]);
    if (attrs->transpose_a || !IsFloatMatrix(a) || !IsFloatMatrix(b) || a->shape.size() != b->shape.size())
      return false;
    for (size_t i = 0; i + 2 < a->shape.size(); ++i) {
      if (!SameSize(a->shape[i], b->shape[i])) return false;
    }
    const auto* out = call->type_as<TensorTypeNode>();
    return out != nullptr && out->dtype == DataType::Float(32);
  }

  /// Reshapes that only group the batch.
  Expr SkipReshapes(Expr e) {
    for (;;) {
      const CallNode* reshape = AsCallOf(e, "reshape");
      if (reshape == nullptr) reshape = AsCallOf(e, "dyn.reshape");
      if (reshape == nullptr || uses_[reshape] > 1) return e;
      const auto *to = TensorTypeOf(e), *from = TensorTypeOf(reshape->args[0]);
      if (!IsFloatMatrix(to) || !IsFloatMatrix(from) || !SameMatrix(to, from)) return e;
      e = reshape->args[0];
    }
  }

  /// From the operand of a softmax down to the product: [mask +] [scale *] product.
  Scores FindScores(Expr e, const TensorTypeNode* type) {
    Scores scores;
    for (;;) {
      e = SkipReshapes(e);
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
        if (!IsMask(call->args[1 - inner], type) ||
            !TypesEqual(call->args[inner]->checked_type(), call->checked_type()))
          return {};
        scores.mask = call->args[1 - inner];
        e = call->args[inner];
      } else if (name == "multiply" || name == "divide") {
        size_t inner = name == "divide" || UniformValue(call->args[1]) ? 0 : 1;
        auto factor = UniformValue(call->args[1 - inner]);
        if (!factor || *factor == 0 || !TypesEqual(call->args[inner]->checked_type(), call->checked_type())) return {};
        scores.scale *= name == "divide" ? 1 / *factor : *factor;
        e = call->args[inner];
      } else {
        return {};
      }
    }
  }

  bool LeadsToProduct(Expr e) {
    for (;;) {
      const auto* call = SkipReshapes(e).as<CallNode>();
      if (call == nullptr) return false;
      const std::string& name = OpName(call);
      if (name == "nn.batch_matmul") return true;
      if (name != "multiply" && name != "divide") return false;
      e = UniformValue(call->args[0]) ? call->args[1] : call->args[0];
    }
  }

  /// Whether it is known to broadcast to the scores, in all but their last dimension.
  static bool IsMask(const Expr& e, const TensorTypeNode* scores) {
    const auto* mask = TensorTypeOf(e);
    if (mask == nullptr || mask->dtype != DataType::Float(32) || mask->shape.empty()) return false;
    const size_t rank = mask->shape.size(), skip = scores->shape.size() - rank;
    if (rank > scores->shape.size() || !SameSize(mask->shape.back(), scores->shape.back())) return false;
    for (size_t i = 0; i + 1 < rank; ++i) {
      if (!tir::is_const_int(mask->shape[i], 1) && !SameSize(mask->shape[i], scores->shape[i + skip])) return false;
    }
    return true;
  }

  /// A few queries (a decoder's step) run on keys as they are, in vectors along their elements.
  static bool IsWorthIt(const Scores& scores, const CallNode* mixed) {
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
    const bool many = rows == nullptr || *rows >= kFewRows;
    // Sizes that the run decides are for one kernel, of values that fill vectors.
    constexpr int64_t kWideVector = 16;
    if (!is_static) return many && *values % kWideVector == 0;
    return many || (*size % kVector == 0 && *values % kVector == 0);
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

  /// Null where batches can't be written.
  Expr Fused(const CallNode* mixed, const Scores& scores, const TensorTypeNode* type) {
    const Expr query = Operand(scores.product, 0, type, false), key = Operand(scores.product, 1, type, false),
               value = Operand(mixed, 1, type, true);
    if (!query.defined() || !key.defined() || !value.defined()) return Expr();
    // One zero does for scores whose number the run decides.
    const PrimExpr masked = AsConstInt(type->shape.back()) != nullptr ? type->shape.back() : PrimExpr(int64_t{1});
    Expr mask = scores.mask.defined() ? Mutate(scores.mask) : ops::MakeZeros({masked}, DataType::Float(32));
    Expr result = ops::CallOp("nn.attention", {query, key, value, mask}, MakeAttrs<ops::AttentionAttrs>([&](auto& a) {
                                a.scale = scores.scale;
                                a.zero_masked_rows = scores.zero_masked_rows;
                              }),
                              mixed->span);
    Array<PrimExpr> shape = type->shape;
    shape.Set(shape.size() - 1, mixed->type_as<TensorTypeNode>()->shape.back());
    return WithBatch(result, TensorType(shape, type->dtype).get(), mixed->type_as<TensorTypeNode>());
  }

  std::unordered_map<const Object*, int> uses_;
};

}  // namespace

namespace transform {

Pass FuseAttention() {
  return CreateFunctionPass([](const Function& func, const IRModule&,
                               const PassContext&) { return Downcast<Function>(AttentionFuser(func).Mutate(func)); },
                            {"FuseAttention", 3, {"InferType"}, "Attention becomes one operator"});
}

}  // namespace transform
}  // namespace treadle::relay
