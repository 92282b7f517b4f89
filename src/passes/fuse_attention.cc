// SPDX-License-Identifier: Apache-2.0
// FuseAttention: what exporters write for attention - a product of queries and keys, a scale, a mask, softmax, a
// product with the values - becomes one operator, which needs no memory for the scores.
#include "passes/fuse_attention.h"

#include <utility>

#include "passes/pass_util.h"
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
};

bool IsFloatMatrix(const TensorTypeNode* type) {
  return type != nullptr && type->dtype == DataType::Float(32) && type->shape.size() >= 2 && IsStatic(type);
}

/// Dimensions of the last two axes.
std::pair<int64_t, int64_t> MatrixOf(const TensorTypeNode* type) {
  size_t rank = type->shape.size();
  return {*AsConstInt(type->shape[rank - 2]), *AsConstInt(type->shape[rank - 1])};
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
    if (softmax == nullptr || OpName(softmax) != "nn.softmax" || uses_[softmax] != 1) return post;
    const auto* type = TensorTypeOf(softmax->args[0]);
    if (!IsFloatMatrix(type) || MatrixOf(type) != MatrixOf(TensorTypeOf(pre->args[0]))) return post;
    if (PositiveAxis(softmax->attrs_as<ops::SoftmaxAttrs>()->axis, type->shape.size()) + 1 !=
        static_cast<int>(type->shape.size())) {
      return post;
    }
    Scores scores = FindScores(softmax->args[0], type);
    if (scores.product == nullptr || !IsWorthIt(scores, pre)) return post;
    return Fused(pre, scores, type);
  }

  /// A product of float32 matrices with equal batches and a first operand as it is.
  static bool IsPlain(const CallNode* call) {
    const auto* attrs = call->attrs_as<ops::BatchMatmulAttrs>();
    const auto *a = TensorTypeOf(call->args[0]), *b = TensorTypeOf(call->args[1]);
    if (attrs->transpose_a || !IsFloatMatrix(a) || !IsFloatMatrix(b) || a->shape.size() != b->shape.size())
      return false;
    for (size_t i = 0; i + 2 < a->shape.size(); ++i) {
      if (*AsConstInt(a->shape[i]) != *AsConstInt(b->shape[i])) return false;
    }
    const auto* out = call->type_as<TensorTypeNode>();
    return out != nullptr && out->dtype == DataType::Float(32);
  }

  /// Reshapes that only group the batch.
  Expr SkipReshapes(Expr e) {
    for (;;) {
      const auto* reshape = AsCallOf(e, "reshape");
      if (reshape == nullptr || uses_[reshape] > 1) return e;
      const auto *to = TensorTypeOf(e), *from = TensorTypeOf(reshape->args[0]);
      if (!IsFloatMatrix(to) || !IsFloatMatrix(from) || MatrixOf(to) != MatrixOf(from)) return e;
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

  /// Whether it broadcasts to the scores, in all but their last dimension.
  static bool IsMask(const Expr& e, const TensorTypeNode* scores) {
    const auto* mask = TensorTypeOf(e);
    if (mask == nullptr || mask->dtype != DataType::Float(32) || mask->shape.empty() || !IsStatic(mask)) return false;
    return *AsConstInt(mask->shape.back()) == *AsConstInt(scores->shape.back()) &&
           mask->shape.size() <= scores->shape.size();
  }

  /// A few queries (a decoder's step) run on keys as they are, in vectors along their elements.
  static bool IsWorthIt(const Scores& scores, const CallNode* mixed) {
    constexpr int64_t kFewRows = 4, kVector = 8;
    auto [rows, size] = MatrixOf(TensorTypeOf(scores.product->args[0]));
    int64_t values = MatrixOf(mixed->type_as<TensorTypeNode>()).second;
    for (const PrimExpr& dim : mixed->type_as<TensorTypeNode>()->shape) {
      if (*AsConstInt(dim) == 0) return false;
    }
    return rows >= kFewRows || (size % kVector == 0 && values % kVector == 0);
  }

  /// `e` with the batch dimensions of the scores.
  Expr WithBatch(const Expr& e, const TensorTypeNode* scores, std::pair<int64_t, int64_t> matrix) {
    std::vector<int64_t> shape;
    for (size_t i = 0; i + 2 < scores->shape.size(); ++i) shape.push_back(*AsConstInt(scores->shape[i]));
    shape.push_back(matrix.first);
    shape.push_back(matrix.second);
    return ops::MakeReshape(e, shape);
  }

  /// The operand (.., n, k), whichever way it was given; (.., k, n) if `k_first`.
  Expr Operand(const CallNode* product, size_t i, const TensorTypeNode* scores, bool k_first) {
    Expr e = WithBatch(Mutate(product->args[i]), scores, MatrixOf(TensorTypeOf(product->args[i])));
    const bool given_k_first = i == 0 ? false : !product->attrs_as<ops::BatchMatmulAttrs>()->transpose_b;
    if (i == 0 || given_k_first == k_first) return e;
    std::vector<int64_t> axes;
    for (size_t d = 0; d < scores->shape.size(); ++d) axes.push_back(static_cast<int64_t>(d));
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    return ops::MakeTranspose(e, axes);
  }

  Expr Fused(const CallNode* mixed, const Scores& scores, const TensorTypeNode* type) {
    Expr mask = scores.mask.defined() ? Mutate(scores.mask) : ops::MakeZeros({type->shape.back()}, DataType::Float(32));
    Expr result = ops::CallOp("nn.attention",
                              {Operand(scores.product, 0, type, false), Operand(scores.product, 1, type, false),
                               Operand(mixed, 1, type, true), mask},
                              MakeAttrs<ops::AttentionAttrs>([&](auto& a) { a.scale = scores.scale; }), mixed->span);
    return ops::MakeReshape(result, mixed->type_as<TensorTypeNode>()->shape);
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
