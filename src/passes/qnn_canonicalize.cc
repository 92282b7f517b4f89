// SPDX-License-Identifier: Apache-2.0
// QnnCanonicalize: operators on quantised tensors become plain ones, by the rule that each states.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "passes/pass_util.h"
#include "passes/qnn_passes.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::relay {
namespace {

/// Whether nothing but constants is in `expr`, of few operators.
bool IsClosed(const Expr& expr, int depth = 4) {
  if (expr.as<ConstantNode>() != nullptr) return true;
  const auto* call = expr.as<CallNode>();
  if (call == nullptr || depth == 0) return false;
  return std::all_of(call->args.begin(), call->args.end(), [&](const Expr& arg) { return IsClosed(arg, depth - 1); });
}

/// What has the same elements in the same order, in another shape.
const CallNode* AsReshape(const Expr& e) {
  for (const char* name : {"reshape", "squeeze", "expand_dims", "nn.batch_flatten"}) {
    if (const CallNode* call = AsCallOf(e, name); call != nullptr && call->args.size() == 1) return call;
  }
  return nullptr;
}

class QnnCanonicalizer : public MixedModeMutator {
 public:
  explicit QnnCanonicalizer(const Expr& root) : uses_(CountUses(root)) {}

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* op = pre->op.as<OpNode>();
    if (op == nullptr) return post;
    if (op->name == "add" || op->name == "nn.bias_add") return Joined(pre, post);
    if (op->name == "qnn.contrib_lookup") return BeforeReshapes(post.as<CallNode>());
    if (op->name == "qnn.dequantize" && uses_[pre->args[0].get()] == 1) {
      if (Expr real = OfRounded(pre, post.as<CallNode>()); real.defined()) return real;
    }
    return ReplaceByRule(GetRef<Op>(op).GetAttr(kQnnCanonicalize), pre, post);
  }

  /// A bias of integers and what zero points contribute to the sums are one constant: (x - c) + b is x + (b - c).
  static Expr Joined(const CallNode* pre, const Expr& post) {
    const auto* type = TensorTypeOf(GetRef<Expr>(pre));
    const auto* sum = post.as<CallNode>();
    if (type == nullptr || type->dtype != DataType::Int(32) || sum == nullptr || !IsClosed(sum->args[1])) return post;
    const CallNode* difference = AsCallOf(sum->args[0], "subtract");
    if (difference == nullptr || !IsClosed(difference->args[1])) return post;
    Expr bias = sum->args[1];
    if (pre->op.as<OpNode>()->name == "nn.bias_add") {
      const size_t rank = type->shape.size();
      const int trailing = static_cast<int>(rank) - PositiveAxis(sum->attrs_as<ops::BiasAddAttrs>()->axis, rank) - 1;
      if (trailing > 0) bias = ops::MakeExpandDims(bias, 1, trailing);
    }
    Expr constant = ops::CallOp("subtract", {bias, difference->args[1]});
    return ops::CallOp("add", {difference->args[0], constant}, Attrs(), sum->span);
  }

  /// A table is read before reshapes, so that it's fused into what gives the bytes.
  static Expr BeforeReshapes(const CallNode* lookup) {
    std::vector<const CallNode*> reshapes;
    Expr data = lookup->args[0];
    while (const CallNode* reshape = AsReshape(data)) {
      reshapes.push_back(reshape);
      data = reshape->args[0];
    }
    Expr result = Call(lookup->op, {data, lookup->args[1]}, lookup->attrs, {}, lookup->span);
    for (size_t i = reshapes.size(); i-- > 0;) {
      result = Call(reshapes[i]->op, {result}, reshapes[i]->attrs, reshapes[i]->type_args, reshapes[i]->span);
    }
    return result;
  }

  /// The real numbers for integers that nothing else needs, quantised just before: what was rounded, without narrowing
  /// it and widening it again. Null where the integers come from elsewhere.
  static Expr OfRounded(const CallNode* pre, const CallNode* post) {
    const CallNode* narrow = AsCallOf(post->args[0], "cast");
    if (narrow == nullptr || !post->args[1]->IsInstance<ConstantNode>()) return Expr();
    const auto zero = UniformValue(post->args[2]);
    const auto scale = UniformValue(post->args[1]);
    if (!zero || !scale || *zero != std::trunc(*zero)) return Expr();
    Expr rounded = narrow->args[0];
    const CallNode* moved = AsCallOf(rounded, "add");
    if (*zero != 0) {
      if (moved == nullptr || UniformValue(moved->args[1]) != zero) return Expr();
      rounded = moved->args[0];
    }
    if (AsCallOf(rounded, "qnn.contrib_round_clip") == nullptr) return Expr();
    Expr real = ops::CallWith<ops::CastAttrs>("cast", {rounded}, [](auto& a) { a.dtype = DataType::Float(32); });
    return ops::CallOp("multiply", {real, ops::ScalarConstant(DataType::Float(32), *scale)}, Attrs(), pre->span);
  }

  std::unordered_map<const Object*, int> uses_;
};

}  // namespace

namespace transform {

Pass QnnCanonicalize() {
  return MutatorPass<QnnCanonicalizer>(
      {"QnnCanonicalize", 0, {"InferType"}, "Writes operators on quantised tensors as plain ones"});
}

}  // namespace transform
}  // namespace treadle::relay
