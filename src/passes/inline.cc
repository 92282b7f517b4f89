// SPDX-License-Identifier: Apache-2.0
// Inline: replaces calls of global functions marked Inline=1, callees first. A function is inlined when it isn't
// recursive and calls no other global function any more; of external code generators' functions the literal becomes
// the callee.
#include <map>
#include <unordered_set>

#include "passes/pass_util.h"
#include "relay/type_infer/unifier.h"

namespace treadle::relay {

std::vector<GlobalVar> GlobalsUsedBy(const Expr& expr);

namespace {

/// A copy with fresh variables: each variable is bound once in a program, however often a function is inlined.
class Renamer : public ExprMutator {
 public:
  using ExprMutator::VisitExpr_;
  void Replace(const Var& var, const Expr& value) { values_[var->vid.get()] = value; }
  void Replace(const TypeVar& var, const Type& type) { types_[var.get()] = type; }
  Type VisitType(const Type& type) override { return types_.empty() ? type : SubstituteTypeVars(type, types_); }
  Expr VisitExpr_(const VarNode* op) override {
    auto it = values_.find(op->vid.get());
    return it == values_.end() ? GetRef<Expr>(op) : it->second;
  }
  Expr VisitExpr_(const LetNode* op) override {
    std::vector<std::pair<const LetNode*, Expr>> chain;
    std::vector<Var> vars;
    Expr rest = GetRef<Expr>(op);
    while (const auto* let = rest.as<LetNode>()) {
      // A literal function may name itself, so the variable is fresh before the value is copied.
      vars.push_back(Fresh(let->var));
      chain.emplace_back(let, Mutate(let->value));
      rest = let->body;
    }
    Expr result = Mutate(rest);
    for (size_t i = chain.size(); i-- > 0;) result = Let(vars[i], chain[i].second, result, chain[i].first->span);
    return result;
  }
  // What has an effect is one evaluation per object, so each copy has its own even where no variable is renamed.
  Expr VisitExpr_(const CallNode* op) override {
    Expr copy = ExprMutator::VisitExpr_(op);
    if (copy.get() != op || IsPureOp(op)) return copy;
    return Call(op->op, op->args, op->attrs, op->type_args, op->span);
  }
  Expr VisitExpr_(const RefCreateNode* op) override { return RefCreate(Mutate(op->value), op->span); }
  Expr VisitExpr_(const RefReadNode* op) override { return RefRead(Mutate(op->ref), op->span); }
  Expr VisitExpr_(const RefWriteNode* op) override {
    Expr ref = Mutate(op->ref);
    return RefWrite(ref, Mutate(op->value), op->span);
  }
  Expr VisitExpr_(const FunctionNode* op) override {
    Array<Var> params;
    for (const Var& param : op->params) params.push_back(Fresh(param));
    Type result = op->ret_type.defined() ? VisitType(op->ret_type) : op->ret_type;
    return Function(params, Mutate(op->body), result, op->type_params, op->attrs, op->span);
  }
  Pattern VisitPattern(const Pattern& pattern) override {
    if (const auto* var = pattern.as<PatternVarNode>()) return PatternVar(Fresh(var->var), var->span);
    return ExprMutator::VisitPattern(pattern);
  }

 private:
  Var Fresh(const Var& var) {
    // Two lets that bind one variable share what uses it, so they go on binding one.
    auto known = values_.find(var->vid.get());
    if (known != values_.end() && known->second.as<VarNode>()) return Downcast<Var>(known->second);
    Type annotation = var->type_annotation.defined() ? VisitType(var->type_annotation) : var->type_annotation;
    Var fresh(var->name_hint(), annotation, var->span);
    values_[var->vid.get()] = fresh;
    return fresh;
  }
  std::unordered_map<const Object*, Expr> values_;
  std::unordered_map<const Object*, Type> types_;
};

class Inliner : public ExprMutator {
 public:
  explicit Inliner(const std::map<std::string, Function>& bodies) : bodies_(bodies) {}
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const CallNode* op) override {
    const auto* global = op->op.as<GlobalVarNode>();
    auto it = global == nullptr ? bodies_.end() : bodies_.find(global->name_hint);
    if (it == bodies_.end()) return ExprMutator::VisitExpr_(op);
    const Function& func = it->second;
    if (func->type_params.size() != op->type_args.size()) return ExprMutator::VisitExpr_(op);
    Array<Expr> args = op->args.Map([this](const Expr& arg) { return Mutate(arg); });
    if (func->GetAttr<ObjectRef>(attr::kCompiler) || func->is_primitive()) {
      return Call(Renamer().Mutate(func), args, op->attrs, op->type_args, op->span);
    }
    TREADLE_ICHECK(func->params.size() == args.size())
        << "call of @" << it->first << " with another number of arguments";
    Renamer renamer;
    for (size_t i = 0; i < op->type_args.size(); ++i) renamer.Replace(func->type_params[i], op->type_args[i]);
    // An argument with an effect is evaluated once, before the body, whatever the body does with it.
    std::vector<std::pair<Var, Expr>> bound;
    for (size_t i = 0; i < args.size(); ++i) {
      Expr value = args[i];
      if (MayHaveEffect(value)) {
        Var var(func->params[i]->name_hint(), Type(), value->span);
        bound.emplace_back(var, value);
        value = var;
      }
      renamer.Replace(func->params[i], value);
    }
    Expr result = renamer.Mutate(func->body);
    for (size_t i = bound.size(); i-- > 0;) result = Let(bound[i].first, bound[i].second, result, op->span);
    return result;
  }

 private:
  const std::map<std::string, Function>& bodies_;
};

/// Global functions, callees before callers; members of cycles are listed in `recursive`.
class CallOrder {
 public:
  explicit CallOrder(const IRModule& module) : module_(module) {
    for (const auto& [var, func] : module->functions) Visit(var);
  }
  std::vector<GlobalVar> order;
  std::unordered_set<std::string> recursive;

 private:
  void Visit(const GlobalVar& var) {
    WithEnoughStack([&] {
      int& state = state_[var->name_hint];
      if (state == 2) return;
      if (state == 1) {
        for (size_t i = path_.size(); i-- > 0;) {
          recursive.insert(path_[i]);
          if (path_[i] == var->name_hint) break;
        }
        return;
      }
      state = 1;
      path_.push_back(var->name_hint);
      if (module_->functions.contains(var)) {
        BaseFunc func = module_->Lookup(var);
        if (func.as<FunctionNode>()) {
          for (const GlobalVar& used : GlobalsUsedBy(func)) Visit(used);
        }
        order.push_back(var);
      }
      path_.pop_back();
      state_[var->name_hint] = 2;
    });
  }
  const IRModule& module_;
  std::map<std::string, int> state_;
  std::vector<std::string> path_;
};

bool HasInlineFunction(const IRModule& module) {
  for (const auto& [var, base] : module->functions) {
    const auto* func = base.as<FunctionNode>();
    if (func != nullptr && func->HasNonzeroAttr(attr::kInline)) return true;
  }
  return false;
}

IRModule InlineGlobals(IRModule module) {
  if (!HasInlineFunction(module)) return module;
  CallOrder calls(module);
  std::map<std::string, Function> bodies;
  std::unordered_set<std::string> referenced;
  IRModule result = module;
  for (const GlobalVar& var : calls.order) {
    BaseFunc base = module->Lookup(var);
    if (base.as<FunctionNode>() == nullptr) continue;
    Function func = Downcast<Function>(base);
    for (const GlobalVar& used : GlobalsUsedBy(func)) referenced.insert(used->name_hint);
    if (!func->GetAttr<ObjectRef>(attr::kCompiler)) {
      Expr body = Inliner(bodies).Mutate(func->body);
      if (!body.same_as(func->body)) {
        func = WithBody(func, body);
        result.CopyOnWrite()->Add(var, func);
      }
    }
    if (func->HasNonzeroAttr(attr::kInline) && calls.recursive.count(var->name_hint) == 0 &&
        GlobalsUsedBy(func->body).empty()) {
      bodies.emplace(var->name_hint, func);
    }
  }
  // Uses other than as a callee keep a function alive.
  std::unordered_set<std::string> still_used;
  for (const auto& [var, base] : result->functions) {
    if (base.as<FunctionNode>() == nullptr) continue;
    for (const GlobalVar& used : GlobalsUsedBy(base)) still_used.insert(used->name_hint);
  }
  for (const auto& [name, func] : bodies) {
    if (referenced.count(name) != 0 && still_used.count(name) == 0) {
      result.CopyOnWrite()->Remove(result->GetGlobalVar(name));
    }
  }
  return result;
}

}  // namespace

Expr RenameBoundVars(const Expr& expr) { return Renamer().Mutate(expr); }

Function Instantiate(const Function& func, const Array<Type>& type_args) {
  if (func->type_params.size() != type_args.size()) return Function();
  Renamer renamer;
  for (size_t i = 0; i < type_args.size(); ++i) renamer.Replace(func->type_params[i], type_args[i]);
  Function copy = Downcast<Function>(renamer.Mutate(func));
  copy.CopyOnWrite()->type_params = {};
  return copy;
}

namespace transform {

Pass Inline() {
  return CreateModulePass([](const IRModule& module, const PassContext&) { return InlineGlobals(module); },
                          {"InlineGlobals", 1, {}, "Inlines global functions marked Inline"});
}

Pass DefuseOps() {
  class Defuser : public ExprMutator {
   public:
    using ExprMutator::VisitExpr_;
    Expr VisitExpr_(const CallNode* op) override {
      const auto* func = op->op.as<FunctionNode>();
      if (func == nullptr || func->attrs->dict.count(attr::kPrimitive) == 0 ||
          func->GetAttr<ObjectRef>(attr::kCompiler)) {
        return ExprMutator::VisitExpr_(op);
      }
      Renamer renamer;
      for (size_t i = 0; i < op->args.size(); ++i) renamer.Replace(func->params[i], Mutate(op->args[i]));
      return renamer.Mutate(func->body);
    }
  };
  return MutatorPass<Defuser>({"DefuseOps", 3, {"InferType"}, "Puts the bodies of fused functions back in place"});
}

}  // namespace transform
}  // namespace treadle::relay
