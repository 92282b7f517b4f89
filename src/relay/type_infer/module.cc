// SPDX-License-Identifier: Apache-2.0
// Inference of whole modules, and the passes made from it.
#include "relay/type_infer/infer.h"
#include "treadle/relay/transform.h"

namespace treadle::relay {
namespace {

class ModuleInference : public GlobalTypes {
 public:
  explicit ModuleInference(IRModule module)
      : module_(std::move(module)), diagnostics_(module_.defined() ? module_->source_map : Map<String, String>()) {}

  Type TypeOf(const GlobalVar& var) final {
    if (!module_.defined()) return Type();
    auto func = module_->functions.Get(var);
    if (!func) return Type();
    auto known = types_.find(var.get());
    if (known != types_.end()) return known->second;
    const auto* relay_func = func->as<FunctionNode>();
    if (relay_func == nullptr) return (*func)->checked_type_;
    FuncType annotated = relay_func->func_type_annotation();
    types_[var.get()] = annotated;
    if (!FullyAnnotated(relay_func)) InferFunction(var);
    return types_.at(var.get());
  }

  IRModule InferAll() {
    Map<GlobalVar, BaseFunc> functions = module_->functions;
    for (const auto& [var, func] : functions) {
      if (func->IsInstance<FunctionNode>()) InferFunction(var);
    }
    ThrowErrors();
    IRModule result = module_;
    for (const auto& [var, func] : functions) {
      auto it = inferred_.find(var.get());
      if (it == inferred_.end()) continue;
      const_cast<GlobalVarNode*>(var.get())->checked_type_ = it->second->checked_type_;
      if (!it->second.same_as(func)) result.CopyOnWrite()->functions.Set(var, Downcast<BaseFunc>(it->second));
    }
    return result;
  }

  Expr InferOne(const Expr& expr) {
    Expr result = Inferencer(module_, this, &diagnostics_).Run(expr);
    ThrowErrors();
    return result;
  }

 private:
  static bool FullyAnnotated(const FunctionNode* func) {
    if (!func->ret_type.defined()) return false;
    for (const Var& param : func->params) {
      if (!param->type_annotation.defined()) return false;
    }
    return true;
  }

  void InferFunction(const GlobalVar& var) {
    if (!started_.insert(var.get()).second) return;
    Expr func = module_->Lookup(var);
    types_.try_emplace(var.get(), static_cast<const FunctionNode*>(func.get())->func_type_annotation());
    Expr typed = Inferencer(module_, this, &diagnostics_).Run(func);
    if (!typed.defined()) return;
    inferred_[var.get()] = typed;
    types_[var.get()] = typed->checked_type_;
  }

  void ThrowErrors() const {
    if (!diagnostics_.empty()) throw TypeInferError(diagnostics_.Render());
  }

  IRModule module_;
  Diagnostics diagnostics_;
  std::unordered_map<const Object*, Type> types_;
  std::unordered_set<const Object*> started_;
  std::unordered_map<const Object*, Expr> inferred_;
};

/// Whether inference would find what is there: a function that is typed was typed as a whole, and a module's only
/// function depends on no other. (A function is typed as an object; a changed one is another object, without type.)
bool IsTypedAlone(const IRModule& module) {
  if (module->functions.size() != 1) return false;
  const BaseFunc base = (*module->functions.begin()).second;
  const auto* func = base.as<FunctionNode>();
  return func != nullptr && func->checked_type_.defined() && func->body->checked_type_.defined();
}

}  // namespace

IRModule InferTypes(const IRModule& module) { return ModuleInference(module).InferAll(); }

Expr InferType(const Expr& expr, const IRModule& module) { return ModuleInference(module).InferOne(expr); }

Type InferTypeOf(const Expr& expr, const IRModule& module) { return InferType(expr, module)->checked_type(); }

namespace transform {

Pass InferType() {
  return treadle::transform::CreateModulePass(
      [](IRModule module, const PassContext&) { return IsTypedAlone(module) ? module : InferTypes(module); },
      PassInfo{"InferType", 0, {}, "Infers the types of all expressions."});
}

Pass CreateFunctionPass(std::function<Function(Function, IRModule, PassContext)> run, PassInfo info) {
  auto run_all = [run = std::move(run)](IRModule module, const PassContext& context) {
    // Functions made by hand come without types; passes rely on them.
    for (const auto& [var, func] : module->functions) {
      if (func.as<FunctionNode>() == nullptr || func->checked_type_.defined()) continue;
      module = InferTypes(module);
      break;
    }
    IRModule result = module;
    for (const auto& [var, func] : module->functions) {
      const auto* node = func.as<FunctionNode>();
      if (node == nullptr || node->attrs->dict.contains(attr::kCompiler) ||
          node->HasNonzeroAttr(attr::kSkipOptimization)) {
        continue;
      }
      Function changed = run(GetRef<Function>(node), module, context);
      if (!changed.same_as(func)) result.CopyOnWrite()->functions.Set(var, changed);
    }
    return IsTypedAlone(result) ? result : InferTypes(result);
  };
  return treadle::transform::CreateModulePass(std::move(run_all), std::move(info));
}

}  // namespace transform
}  // namespace treadle::relay
