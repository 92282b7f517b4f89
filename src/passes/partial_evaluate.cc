// SPDX-License-Identifier: Apache-2.0
// PartialEvaluate: does at compile time what is known then: calls of known functions, branches on constants, matches
// of known constructors, projections of known tuples, operators on constants. Recursive functions are unrolled only
// when all their arguments are constants. A budget bounds the growth; what exceeds it stays as it is.
#include "passes/pass_util.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {

std::vector<GlobalVar> GlobalsUsedBy(const Expr& expr);

namespace {

constexpr int kMaxDepth = 64;          ///< of calls expanded within each other
constexpr int kMaxExpansions = 10000;  ///< in one function

class Evaluator : public ExprMutator {
 public:
  explicit Evaluator(const IRModule& module) : module_(module) {}

 private:
  using ExprMutator::VisitExpr_;

  static bool IsAtom(const Expr& e) { return e.as<VarNode>() || e.as<ConstantNode>() || e.as<GlobalVarNode>(); }

  /// The value behind a variable where it is known.
  Expr Known(Expr expr) const {
    while (const auto* var = expr.as<VarNode>()) {
      auto it = known_.find(var->vid.get());
      if (it == known_.end()) break;
      expr = it->second;
    }
    return expr;
  }
  bool IsStatic(const Expr& expr) const {
    Expr value = Known(expr);
    if (value.as<ConstantNode>()) return true;
    const Array<Expr>* parts = nullptr;
    if (const auto* tuple = value.as<TupleNode>()) parts = &tuple->fields;
    const auto* call = value.as<CallNode>();
    if (call != nullptr && call->op.as<ConstructorNode>()) parts = &call->args;
    if (parts == nullptr) return value.as<ConstructorNode>() != nullptr;
    for (const Expr& part : *parts) {
      if (!IsStatic(part)) return false;
    }
    return true;
  }

  Expr VisitExpr_(const VarNode* op) override {
    Expr value = Known(GetRef<Expr>(op));
    return IsAtom(value) ? value : GetRef<Expr>(op);
  }

  Expr VisitExpr_(const FunctionNode* op) override {
    if (op->is_primitive() || op->attrs->dict.contains(attr::kCompiler)) return GetRef<Expr>(op);
    return ExprMutator::VisitExpr_(op);
  }

  Expr VisitExpr_(const LetNode* op) override {
    std::vector<std::pair<const LetNode*, Expr>> chain;
    Expr rest = GetRef<Expr>(op);
    while (const auto* let = rest.as<LetNode>()) {
      Expr value = Mutate(let->value);
      bool effect = effects_.MayHaveEffect(value);
      bool recursive = false;
      if (value.as<FunctionNode>()) {
        for (const Var& var : FreeVars(value)) recursive = recursive || var->vid.same_as(let->var->vid);
      }
      const auto* call = value.as<CallNode>();
      bool constructed = value.as<TupleNode>() || (call != nullptr && call->op.as<ConstructorNode>());
      if (!effect && !recursive && (IsAtom(value) || value.as<FunctionNode>() || constructed)) {
        known_[let->var->vid.get()] = value;
      }
      chain.emplace_back(let, value);
      rest = let->body;
    }
    Expr result = Mutate(rest);
    for (size_t i = chain.size(); i-- > 0;) {
      bool same = chain[i].second.same_as(chain[i].first->value) && result.same_as(chain[i].first->body);
      result =
          same ? GetRef<Expr>(chain[i].first) : Let(chain[i].first->var, chain[i].second, result, chain[i].first->span);
    }
    return result;
  }

  Expr VisitExpr_(const IfNode* op) override {
    Expr cond = Mutate(op->cond);
    auto value = UniformValue(Known(cond));
    if (value) return Mutate(*value != 0 ? op->true_branch : op->false_branch);
    Expr yes = Mutate(op->true_branch), no = Mutate(op->false_branch);
    if (cond.same_as(op->cond) && yes.same_as(op->true_branch) && no.same_as(op->false_branch)) return GetRef<Expr>(op);
    return If(cond, yes, no, op->span);
  }

  Expr VisitExpr_(const TupleGetItemNode* op) override {
    Expr tuple = Mutate(op->tuple);
    if (const auto* known = Known(tuple).as<TupleNode>()) {
      Expr field = known->fields[static_cast<size_t>(op->index)];
      const auto* literal = tuple.as<TupleNode>();
      const bool drops =
          literal != nullptr && effects_.OthersMayHaveEffect(literal->fields, static_cast<size_t>(op->index));
      if (!drops && (IsAtom(field) || literal != nullptr)) return field;
    }
    return tuple.same_as(op->tuple) ? GetRef<Expr>(op) : TupleGetItem(tuple, op->index, op->span);
  }

  Expr VisitExpr_(const MatchNode* op) override {
    Expr data = Mutate(op->data);
    // A pattern may leave out a part: one with an effect is evaluated all the same.
    const bool effect = effects_.MayHaveEffect(data);
    for (const Clause& clause : op->clauses) {
      if (effect) break;
      std::vector<std::pair<Var, Expr>> bound;
      int verdict = MatchPattern(clause->lhs, data, &bound);
      if (verdict == 0) continue;
      if (verdict < 0) break;  // not known
      Array<Var> params;
      Array<Expr> values;
      for (const auto& [var, value] : bound) {
        params.push_back(var);
        values.push_back(value);
      }
      // The arm as a function: what the variables stand for isn't copied.
      return Expand(Instantiate(Function(params, clause->rhs, Type(), {}), {}), values);
    }
    Array<Clause> clauses = op->clauses.Map([this](const Clause& c) { return VisitClause(c); });
    if (data.same_as(op->data) && clauses.same_as(op->clauses)) return GetRef<Expr>(op);
    return Match(data, clauses, op->complete, op->span);
  }

  /// 1: matches, 0: doesn't, -1: can't be told.
  int MatchPattern(const Pattern& pattern, const Expr& value, std::vector<std::pair<Var, Expr>>* bound) {
    if (pattern.as<PatternWildcardNode>()) return 1;
    if (const auto* var = pattern.as<PatternVarNode>()) {
      bound->emplace_back(var->var, value);
      return 1;
    }
    Expr known = Known(value);
    Array<Expr> parts;
    const Array<Pattern>* patterns = nullptr;
    if (const auto* constructor = pattern.as<PatternConstructorNode>()) {
      const auto* call = known.as<CallNode>();
      const auto* actual = call != nullptr ? call->op.as<ConstructorNode>() : known.as<ConstructorNode>();
      if (actual == nullptr) return -1;
      if (actual != constructor->constructor.get()) return 0;
      if (call != nullptr) parts = call->args;
      patterns = &constructor->patterns;
    } else if (const auto* tuple = pattern.as<PatternTupleNode>()) {
      const auto* fields = known.as<TupleNode>();
      if (fields == nullptr) return -1;
      parts = fields->fields;
      patterns = &tuple->patterns;
    }
    for (size_t i = 0; patterns != nullptr && i < patterns->size(); ++i) {
      int verdict = MatchPattern((*patterns)[i], parts[i], bound);
      if (verdict != 1) return verdict;
    }
    return 1;
  }

  Expr VisitExpr_(const CallNode* op) override {
    Expr callee = Mutate(op->op);
    Array<Expr> args = op->args.Map([this](const Expr& arg) { return Mutate(arg); });
    Expr target = Known(callee);
    if (const auto* func = target.as<FunctionNode>()) {
      if (!func->is_primitive() && !func->attrs->dict.contains(attr::kCompiler) && HasBudget()) {
        Function instance = Instantiate(GetRef<Function>(func), op->type_args);
        if (instance.defined()) return Expand(instance, args);
      }
    } else if (const auto* global = target.as<GlobalVarNode>()) {
      Function body = ExpandableGlobal(GetRef<GlobalVar>(global), args);
      if (body.defined() && HasBudget()) body = Instantiate(body, op->type_args);
      if (body.defined() && HasBudget()) return Expand(body, args);
    } else if (target.as<OpNode>()) {
      Expr folded = Fold(op, args);
      if (folded.defined()) return folded;
    }
    if (callee.same_as(op->op) && args.same_as(op->args)) return GetRef<Expr>(op);
    return Call(callee, args, op->attrs, op->type_args, op->span);
  }

  bool HasBudget() const { return depth_ < kMaxDepth && expansions_ < kMaxExpansions; }

  /// `copy` is an instance of its own, with variables that occur nowhere else.
  Expr Expand(const Function& copy, const Array<Expr>& args) {
    Expr body = copy->body;
    for (size_t i = args.size(); i-- > 0;) body = Let(copy->params[i], args[i], body, args[i]->span);
    ++depth_;
    ++expansions_;
    Expr result = Mutate(body);
    --depth_;
    return result;
  }

  Function ExpandableGlobal(const GlobalVar& var, const Array<Expr>& args) {
    if (!module_->ContainGlobalVar(var->name_hint)) return Function();
    BaseFunc base = module_->Lookup(var->name_hint);
    const auto* func = base.as<FunctionNode>();
    if (func == nullptr || func->is_primitive() || func->attrs->dict.contains(attr::kCompiler)) return Function();
    if (IsRecursive(var)) {
      for (const Expr& arg : args) {
        if (!IsStatic(arg)) return Function();
      }
    }
    return GetRef<Function>(func);
  }

  /// Whether the function can reach itself.
  bool IsRecursive(const GlobalVar& var) {
    auto it = recursive_.find(var->name_hint);
    if (it != recursive_.end()) return it->second;
    std::vector<std::string> stack{var->name_hint};
    std::unordered_map<std::string, bool> seen;
    bool found = false;
    while (!stack.empty() && !found) {
      std::string name = stack.back();
      stack.pop_back();
      if (!module_->ContainGlobalVar(name)) continue;
      for (const GlobalVar& used : GlobalsUsedBy(module_->Lookup(name))) {
        found = found || used->name_hint == var->name_hint;
        if (seen.emplace(used->name_hint, true).second) stack.push_back(used->name_hint);
      }
    }
    return recursive_[var->name_hint] = found;
  }

  Expr Fold(const CallNode* op, const Array<Expr>& args) {
    const ConstantEvaluator& evaluate = GetConstantEvaluator();
    if (!evaluate || args.empty() || !IsPureOp(op)) return Expr();
    Array<Expr> values;
    for (const Expr& arg : args) {
      values.push_back(Known(arg));
      if (values.back().as<ConstantNode>() == nullptr) return Expr();
    }
    return evaluate(InferType(Call(op->op, values, op->attrs, {}, op->span), module_));
  }

  IRModule module_;
  std::unordered_map<const Object*, Expr> known_;
  std::unordered_map<std::string, bool> recursive_;
  EffectFinder effects_;
  int depth_ = 0, expansions_ = 0;
};

}  // namespace

namespace transform {

Pass PartialEvaluate() {
  return CreateModulePass(
      [](IRModule module, const PassContext& context) {
        Pass evaluate =
            CreateFunctionPass([](const Function& func, const IRModule& m,
                                  const PassContext&) { return Downcast<Function>(Evaluator(m).Mutate(func)); },
                               {"PartialEvaluateFunctions", 0, {}, ""});
        // Copies of bodies and arms must not copy what the code around them computes, too.
        module = ToBasicBlockNormalForm()(std::move(module), context);
        return DeadCodeElimination()(evaluate(std::move(module), context), context);
      },
      {"PartialEvaluate", 1, {"InferType"}, "Does at compile time what is known then"});
}

}  // namespace transform
}  // namespace treadle::relay
