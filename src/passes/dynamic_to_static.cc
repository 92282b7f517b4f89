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

class ToStatic : public MixedModeMutator {
 public:
  bool changed = false;

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const ops::FStaticForm* form = StaticFormOf(pre);
    if (form == nullptr) return post;
    Expr result = (*form)(static_cast<const CallNode*>(post.get()));
    if (!result.defined()) return post;
    changed = true;
    return result;
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
