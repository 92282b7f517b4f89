// SPDX-License-Identifier: Apache-2.0
// LambdaLift: function literals become global functions. One that captures variables becomes a global function of
// these that returns the literal, marked Closure=1; where it stood, that function is called with the variables.
#include "passes/pass_util.h"

namespace treadle::relay {
namespace {

constexpr const char* kClosure = "Closure";

/// Replaces variables inside, whatever the expression is (Bind would give a function literal more parameters).
class Substituter : public ExprMutator {
 public:
  explicit Substituter(const std::vector<std::pair<Var, Expr>>& values) {
    for (const auto& [var, value] : values) values_[var->vid.get()] = value;
  }
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const VarNode* op) override {
    auto it = values_.find(op->vid.get());
    return it == values_.end() ? GetRef<Expr>(op) : it->second;
  }

 private:
  std::unordered_map<const Object*, Expr> values_;
};

class Lifter : public ExprMutator {
 public:
  Lifter(IRModule* module, std::string prefix) : module_(module), prefix_(std::move(prefix)) {}

 private:
  using ExprMutator::VisitExpr_;

  Expr VisitExpr_(const FunctionNode* func) override {
    if (func->is_primitive() || func->attrs->dict.contains(attr::kCompiler)) return GetRef<Expr>(func);
    return Lift(GetRef<Function>(func), Var());
  }

  Expr VisitExpr_(const LetNode* op) override {
    std::vector<std::pair<const LetNode*, Expr>> chain;
    Expr rest = GetRef<Expr>(op);
    while (const auto* let = rest.as<LetNode>()) {
      const auto* func = let->value.as<FunctionNode>();
      bool lift = func != nullptr && !func->is_primitive() && !func->attrs->dict.contains(attr::kCompiler);
      chain.emplace_back(let, lift ? Lift(GetRef<Function>(func), let->var) : Mutate(let->value));
      rest = let->body;
    }
    Expr result = Mutate(rest);
    for (size_t i = chain.size(); i-- > 0;) {
      result = Let(chain[i].first->var, chain[i].second, result, chain[i].first->span);
    }
    return result;
  }

  /// `self`: the variable by which the literal calls itself; null for none.
  Expr Lift(const Function& func, const Var& self) {
    Array<Var> captured;
    bool recursive = false;
    for (const Var& var : FreeVars(func)) {
      if (self.defined() && var->vid.same_as(self->vid)) {
        recursive = true;
      } else {
        captured.push_back(var);
      }
    }
    GlobalVar global(FreshName());
    Array<Expr> args(captured.begin(), captured.end());
    Expr replacement = captured.empty() ? Expr(global) : Expr(Call(global, args, Attrs(), {}, func->span));
    Expr body = func->body;
    if (recursive) body = Substituter({{self, replacement}}).Mutate(body);
    Function inner = WithBody(func, Mutate(body));
    // A copy of the variables of its own for each global function.
    std::vector<std::pair<Var, Expr>> fresh;
    Array<Var> params;
    for (const Var& var : captured) {
      Type type = var->checked_type_.defined() ? var->checked_type_ : var->type_annotation;
      params.push_back(Var(var->name_hint(), type, var->span));
      fresh.emplace_back(var, params.back());
    }
    Function lifted = inner;
    if (!captured.empty()) {
      Expr closure = WithBody(inner, Substituter(fresh).Mutate(inner->body));
      lifted = Function(params, closure, Type(), {}, DictAttrs(Map<String, ObjectRef>()), func->span);
      lifted = WithAttr(lifted, kClosure, IntImm(DataType::Int(32), 1));
    }
    module_->CopyOnWrite()->Add(global, lifted);
    return replacement;
  }

  std::string FreshName() {
    std::string name;
    do {
      name = StrCat("lifted_", prefix_, "_", next_++);
    } while ((*module_)->ContainGlobalVar(name));
    return name;
  }

  IRModule* module_;
  std::string prefix_;
  int next_ = 0;
};

}  // namespace

namespace transform {

Pass LambdaLift() {
  return CreateModulePass(
      [](IRModule module, const PassContext& context) {
        // A lifted function gets what the code around it computes as a parameter, it doesn't compute it again.
        module = ToBasicBlockNormalForm()(std::move(module), context);
        IRModule result = module;
        for (const auto& [var, base] : module->functions) {
          const auto* func = base.as<FunctionNode>();
          if (func == nullptr || func->is_primitive() || func->attrs->dict.contains(attr::kCompiler)) continue;
          if (func->HasNonzeroAttr(kClosure)) continue;
          Expr body = Lifter(&result, var->name_hint).Mutate(func->body);
          result.CopyOnWrite()->Add(var, WithBody(Downcast<Function>(base), body));
        }
        return InferType()(result, context);
      },
      {"LambdaLift", 1, {"InferType"}, "Turns function literals into global functions"});
}

}  // namespace transform
}  // namespace treadle::relay
