// SPDX-License-Identifier: Apache-2.0
// PropagateConstantArguments: what all calls of a global function agree on becomes part of it.
#include "passes/constant_arguments.h"

#include <map>
#include <set>

#include "passes/pass_util.h"

namespace treadle::relay {
namespace {

/// The calls of one global function.
struct Uses {
  std::vector<std::pair<const CallNode*, bool>> calls;  ///< and whether the function itself makes them
  bool escapes = false;                                 ///< it's also a value
};

std::map<std::string, Uses> UsesOf(const IRModule& module) {
  std::map<std::string, Uses> uses;
  for (const auto& [var, base] : module->functions) {
    if (base.as<FunctionNode>() == nullptr) continue;
    const Expr func = Downcast<Function>(base);
    std::unordered_map<const Object*, int> called;
    std::vector<const GlobalVarNode*> globals;
    PostOrderVisit(func, [&, owner = var->name_hint](const Expr& e) {
      if (const auto* global = e.as<GlobalVarNode>()) globals.push_back(global);
      const auto* call = e.as<CallNode>();
      const auto* callee = call == nullptr ? nullptr : call->op.as<GlobalVarNode>();
      if (callee == nullptr) return;
      uses[callee->name_hint].calls.emplace_back(call, callee->name_hint == owner);
      ++called[callee];
    });
    std::unordered_map<const Object*, int> all = CountUses(func);
    for (const GlobalVarNode* global : globals) {
      if (all[global] != called[global]) uses[global->name_hint].escapes = true;
    }
  }
  return uses;
}

/// The constant that parameter `i` always is; null: there is none.
Expr ConstantOf(const FunctionNode* func, const Uses& uses, size_t i) {
  const Var& param = func->params[i];
  Expr value;
  for (const auto& [call, by_itself] : uses.calls) {
    if (i >= call->args.size()) return Expr();
    const Expr& arg = call->args[i];
    if (by_itself && arg.same_as(param)) continue;
    if (arg.as<ConstantNode>() == nullptr || (value.defined() && !value.same_as(arg))) return Expr();
    value = arg;
  }
  // A constant of which less is known than its type says (dyn.forget_shape) is none; types agree otherwise.
  const Type& declared = param->type_annotation;
  if (!value.defined() || (declared.defined() && !TypesEqual(declared, value->checked_type()))) return Expr();
  return value;
}

/// Leaves arguments out of calls of functions that lost these parameters.
class ArgumentDropper : public MixedModeMutator {
 public:
  explicit ArgumentDropper(const std::map<std::string, std::set<size_t>>& dropped) : dropped_(dropped) {}

 private:
  using MixedModeMutator::Rewrite_;
  Expr Rewrite_(const CallNode*, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    const auto* global = call->op.as<GlobalVarNode>();
    if (global == nullptr) return post;
    auto found = dropped_.find(global->name_hint);
    if (found == dropped_.end()) return post;
    Array<Expr> args;
    for (size_t i = 0; i < call->args.size(); ++i) {
      if (found->second.count(i) == 0) args.push_back(call->args[i]);
    }
    return Call(call->op, args, call->attrs, call->type_args, call->span);
  }
  const std::map<std::string, std::set<size_t>>& dropped_;
};

IRModule Propagated(IRModule module) {
  std::map<std::string, std::set<size_t>> dropped;
  const std::map<std::string, Uses> uses = UsesOf(module);
  IRModule result = module;
  for (const auto& [var, base] : module->functions) {
    const auto* func = base.as<FunctionNode>();
    auto found = uses.find(var->name_hint);
    if (func == nullptr || found == uses.end() || found->second.escapes || var->name_hint == "main") continue;
    if (func->GetAttr<ObjectRef>(attr::kCompiler) || !func->type_params.empty()) continue;
    Map<Var, Expr> bindings;
    for (size_t i = 0; i < func->params.size(); ++i) {
      Expr value = ConstantOf(func, found->second, i);
      if (!value.defined()) continue;
      bindings.Set(func->params[i], value);
      dropped[var->name_hint].insert(i);
    }
    if (bindings.empty()) continue;
    result.CopyOnWrite()->Add(var, Downcast<Function>(Bind(GetRef<Function>(func), bindings)));
  }
  if (dropped.empty()) return module;
  IRModule without = result;
  for (const auto& [var, base] : result->functions) {
    if (base.as<FunctionNode>() == nullptr) continue;
    Expr rewritten = ArgumentDropper(dropped).Mutate(Downcast<Function>(base));
    if (!rewritten.same_as(base)) without.CopyOnWrite()->Add(var, Downcast<Function>(rewritten));
  }
  return without;
}

}  // namespace

namespace transform {

Pass PropagateConstantArguments() {
  return CreateModulePass([](const IRModule& module, const PassContext&) { return Propagated(module); },
                          {"PropagateConstantArguments",
                           1,
                           {"InferType"},
                           "Makes parameters that are one constant in all calls part of functions"});
}

}  // namespace transform
}  // namespace treadle::relay
