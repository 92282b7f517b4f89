// SPDX-License-Identifier: Apache-2.0
// DynamicToStatic: dyn.* operators whose shape operands are constants become their static twins. Types are inferred
// between rounds, since one shape can depend on another.
#include "passes/pass_util.h"
#include "treadle/ops/traits.h"

namespace treadle::relay {
namespace {

const ops::FStaticForm* StaticFormOf(const CallNode* call) {
  const auto* op = call->op.as<OpNode>();
  return op == nullptr ? nullptr : GetRef<Op>(op).GetAttr(ops::kStaticForm);
}

/// The calls that a static form consists of, down to the operands of the call that it replaces, at that call's place.
Expr AtPlaceOf(const CallNode* call, const Expr& form) {
  const auto* made = form.as<CallNode>();
  if (made == nullptr || made->span.defined()) return form;
  for (const Expr& arg : call->args) {
    if (arg.same_as(form)) return form;
  }
  Array<Expr> args = made->args.Map([&](const Expr& arg) { return AtPlaceOf(call, arg); });
  return Call(made->op, args, made->attrs, made->type_args, call->span);
}

class ToStatic : public MixedModeMutator {
 public:
  bool changed = false;

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const ops::FStaticForm* form = StaticFormOf(pre);
    if (form == nullptr) return post;
    const auto* call = static_cast<const CallNode*>(post.get());
    Expr result = (*form)(call);
    if (!result.defined()) return post;
    changed = true;
    return AtPlaceOf(call, result);
  }
};

bool HasRewritable(const IRModule& module) {
  bool found = false;
  for (const auto& [var, func] : module->functions) {
    if (func.as<FunctionNode>() == nullptr) continue;
    PostOrderVisit(func, [&](const Expr& e) {
      const auto* call = e.as<CallNode>();
      found = found || (call != nullptr && StaticFormOf(call) != nullptr);
    });
  }
  return found;
}

}  // namespace

namespace transform {

Pass DynamicToStatic() {
  return CreateModulePass(
      [](IRModule module, const PassContext& context) {
        // Operands for shapes become constants first; each round may make further ones known.
        for (bool changed = HasRewritable(module); changed;) {
          changed = false;
          auto run = [&changed](const Function& func, const IRModule&, const PassContext&) {
            ToStatic rewriter;
            Function result = Downcast<Function>(rewriter.Mutate(func));
            changed = changed || rewriter.changed;
            return result;
          };
          module = FoldConstant()(std::move(module), context);
          module = CreateFunctionPass(run, {"DynamicToStaticRound", 0, {}, ""})(std::move(module), context);
        }
        return module;
      },
      {"DynamicToStatic", 2, {"InferType"}, "Replaces dyn.* operators whose shape operands are constants"});
}

}  // namespace transform
}  // namespace treadle::relay
