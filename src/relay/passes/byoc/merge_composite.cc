// SPDX-License-Identifier: Apache-2.0
// MergeComposite: groups of operators that an external code generator takes as one become functions.
#include "relay/passes/pass_util.h"
#include "treadle/relay/byoc.h"

namespace treadle::relay {
namespace {

class CompositeMerger : public ExprMutator {
 public:
  CompositeMerger(const CompositePattern& pattern, const Expr& root) : pattern_(pattern), uses_(CountUses(root)) {}

 private:
  using ExprMutator::VisitExpr_;

  Expr VisitExpr_(const FunctionNode* func) override {
    if (func->attrs->dict.contains(attr::kComposite) || func->is_primitive()) return GetRef<Expr>(func);
    return ExprMutator::VisitExpr_(func);
  }

  Expr VisitExpr_(const CallNode* call) override {
    Match match;
    bool found = MatchTree(GetRef<Expr>(call), pattern_.tree, &match, /*is_root=*/true);
    if (!found || (pattern_.check && !pattern_.check(call))) return ExprMutator::VisitExpr_(call);
    Array<Var> params;
    Array<Expr> args;
    Map<Expr, Expr> inside;
    for (const Expr& input : match.inputs) {
      if (inside.contains(input)) continue;
      Var param(StrCat("FunctionVar_", next_, "_", params.size()), input->checked_type(), input->span);
      params.push_back(param);
      args.push_back(Mutate(input));
      inside.Set(input, param);
    }
    ++next_;
    std::string from;
    for (const CallNode* op : match.calls) from += OpName(op) + "_";
    Map<String, ObjectRef> attrs{{attr::kComposite, String(pattern_.name)},
                                 {attr::kPartitionedFromPattern, String(from)}};
    Expr body = Rebuild(GetRef<Expr>(call), inside, &match);
    Function func(params, body, call->checked_type(), {}, DictAttrs(attrs), call->span);
    return Call(func, args, Attrs(), {}, call->span);
  }

  struct Match {
    std::vector<Expr> inputs;            ///< in order of the tree's leaves
    std::vector<const CallNode*> calls;  ///< inner ones first
  };

  bool MatchTree(const Expr& expr, const OpTree& tree, Match* match, bool is_root) {
    if (tree.op.empty()) {
      match->inputs.push_back(expr);
      return true;
    }
    if (tree.op == "constant") return expr.as<ConstantNode>() != nullptr;
    const auto* call = AsCallOf(expr, tree.op.c_str());
    if (call == nullptr || call->args.size() != tree.args.size()) return false;
    if (!is_root && uses_[call] != 1) return false;
    bool commutes = call->args.size() == 2 && (tree.op == "add" || tree.op == "multiply");
    for (int attempt = 0; attempt < (commutes ? 2 : 1); ++attempt) {
      Match inner = *match;
      bool all = true;
      for (size_t i = 0; i < tree.args.size() && all; ++i) {
        size_t k = attempt == 0 ? i : 1 - i;
        all = MatchTree(call->args[i], tree.args[k], &inner, false);
      }
      if (all) {
        inner.calls.push_back(call);
        *match = inner;
        return true;
      }
    }
    return false;
  }

  /// The matched calls on the parameters.
  static Expr Rebuild(const Expr& expr, const Map<Expr, Expr>& inside, const Match* match) {
    auto param = inside.Get(expr);
    if (param) return *param;
    const auto* call = expr.as<CallNode>();
    if (call == nullptr) return expr;
    Array<Expr> args = call->args.Map([&](const Expr& arg) { return Rebuild(arg, inside, match); });
    return Call(call->op, args, call->attrs, call->type_args, call->span);
  }

  const CompositePattern& pattern_;
  std::unordered_map<const Object*, int> uses_;
  int next_ = 0;
};

}  // namespace

namespace transform {

Pass MergeComposite(std::vector<CompositePattern> patterns) {
  std::vector<Pass> passes;
  for (const CompositePattern& pattern : patterns) {
    passes.push_back(CreateFunctionPass(
        [pattern](const Function& func, const IRModule&, const PassContext&) {
          return Downcast<Function>(CompositeMerger(pattern, func).Mutate(func));
        },
        {"MergeComposite", 0, {"InferType"}, "Groups operators that an external code generator takes as one"}));
  }
  return Sequential(passes, "MergeComposite");
}

}  // namespace transform
}  // namespace treadle::relay
