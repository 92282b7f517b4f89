// SPDX-License-Identifier: Apache-2.0
// SimplifyInference: operators become what they are in inference (ops::kInferenceForm): norms arithmetic, dropout its
// input.
#include "ops/inference_forms.h"
#include "passes/pass_util.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/traits.h"

namespace treadle::relay {
namespace {

/// An instance norm of what a reshape has made one channel of all of a tensor's, as exporters write a group norm of one
/// group: of the tensor itself, which may have a layout of its own. Null where it is none.
Expr NormOfAllChannels(const CallNode* pre, const CallNode* post) {
  const auto* attrs = pre->attrs.as<ops::InstanceNormAttrs>();
  const auto *merged = AsCallOf(pre->args[0], "reshape"), *data = AsCallOf(post->args[0], "reshape");
  if (attrs == nullptr || attrs->axis != 1 || merged == nullptr || data == nullptr) return Expr();
  const auto *type = merged->type_as<TensorTypeNode>(), *whole = merged->args[0]->type_as<TensorTypeNode>();
  if (type == nullptr || whole == nullptr || whole->shape.size() <= type->shape.size()) return Expr();
  const int64_t* channels = AsConstInt(type->shape[1]);
  if (channels == nullptr || *channels != 1 || !StructuralEqual(type->shape[0], whole->shape[0])) return Expr();
  const Call norm = Downcast<Call>(ops::CallWith<ops::GroupNormAttrs>("nn.group_norm", {data->args[0]}, [&](auto& a) {
    a.num_groups = 1;
    a.epsilon = attrs->epsilon;
    a.scale = a.center = false;
  }));
  Expr result = ops::GroupNormInference(norm.get(), whole);
  // One number each.
  if (attrs->scale) result = ops::CallOp("multiply", {result, post->args[1]});
  if (attrs->center) result = ops::CallOp("add", {result, post->args[2]});
  return Call(data->op, {result}, data->attrs, {}, data->span);
}

class InferenceSimplifier : public MixedModeMutator {
 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* op = pre->op.as<OpNode>();
    const auto* form = op == nullptr ? nullptr : GetRef<Op>(op).GetAttr(ops::kInferenceForm);
    const auto* type = form == nullptr || pre->args.empty() ? nullptr : pre->args[0]->type_as<TensorTypeNode>();
    if (type == nullptr) return post;
    const Expr norm = NormOfAllChannels(pre, static_cast<const CallNode*>(post.get()));
    return norm.defined() ? norm : (*form)(static_cast<const CallNode*>(post.get()), type);
  }

  Expr Rewrite_(const TupleGetItemNode* pre, const Expr& post) override {
    // Fields of what was an operator with several results.
    const auto* tuple = static_cast<const TupleGetItemNode*>(post.get())->tuple.as<TupleNode>();
    if (tuple != nullptr && pre->tuple.as<CallNode>() != nullptr) return tuple->fields[static_cast<size_t>(pre->index)];
    return post;
  }
};

}  // namespace

namespace transform {

Pass SimplifyInference() {
  return MutatorPass<InferenceSimplifier>(
      {"SimplifyInference", 0, {"InferType"}, "Turns normalisations into arithmetic and drops dropout"});
}

}  // namespace transform
}  // namespace treadle::relay
