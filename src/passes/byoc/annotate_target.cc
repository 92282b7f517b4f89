// SPDX-License-Identifier: Apache-2.0
// AnnotateTarget: encloses each operator that an external code generator takes in compiler_begin and compiler_end;
// the rest goes to "default". Earlier annotations other than "default" stay.
#include <map>

#include "passes/byoc/annotated_regions.h"
#include "passes/pass_util.h"
#include "treadle/relay/byoc.h"

namespace treadle::relay {
namespace {

constexpr const char* kDefault = "default";

/// Key of the predicate among an operator's properties.
std::string PropertyName(const std::string& compiler) { return "target." + compiler; }

class Annotator : public MixedModeMutator {
 public:
  Annotator(std::vector<std::string> compilers, bool include_non_call_ops)
      : compilers_(std::move(compilers)), include_non_call_ops_(include_non_call_ops) {}

 private:
  using MixedModeMutator::VisitExpr_;

  Expr VisitExpr_(const FunctionNode* func) override {
    if (func->attrs->dict.contains(attr::kComposite) || func->is_primitive()) return GetRef<Expr>(func);
    Expr body = Close(Mutate(func->body));
    return WithBody(GetRef<Function>(func), body);
  }

  Expr VisitExpr_(const LetNode* op) override {
    std::vector<std::pair<const LetNode*, Expr>> chain;
    Expr rest = GetRef<Expr>(op);
    while (const auto* let = rest.as<LetNode>()) {
      chain.emplace_back(let, Close(Mutate(let->value)));
      rest = let->body;
    }
    Expr result = Close(Mutate(rest));
    for (size_t i = chain.size(); i-- > 0;) {
      result = Let(chain[i].first->var, chain[i].second, result, chain[i].first->span);
    }
    return result;
  }

  Expr VisitExpr_(const IfNode* op) override {
    return If(Close(Mutate(op->cond)), Close(Mutate(op->true_branch)), Close(Mutate(op->false_branch)), op->span);
  }

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = static_cast<const CallNode*>(post.get());
    if (IsCompilerBegin(post)) return RewriteBegin(post);
    if (IsCompilerEnd(post)) return RewriteEnd(post);
    std::string target = ChooseTarget(pre);
    Call result(call->op, Open(call->args, &target), call->attrs, call->type_args, call->span);
    return Assign(result, target, pre);
  }
  Expr Rewrite_(const TupleNode* pre, const Expr& post) override {
    if (!include_non_call_ops_) return post;
    std::string target;
    Array<Expr> fields = Open(static_cast<const TupleNode*>(post.get())->fields, &target);
    return Assign(Tuple(fields, pre->span), target, pre);
  }
  Expr Rewrite_(const TupleGetItemNode* pre, const Expr& post) override {
    if (!include_non_call_ops_) return post;
    std::string target;
    const auto* item = static_cast<const TupleGetItemNode*>(post.get());
    return Assign(TupleGetItem(Open({item->tuple}, &target)[0], item->index, pre->span), target, pre);
  }

  /// The first compiler in the list that takes the call.
  std::string ChooseTarget(const CallNode* call) {
    if (call->op.as<OpNode>()) {
      for (const std::string& compiler : compilers_) {
        if (ExternalOpSupported(compiler, call)) return compiler;
      }
    } else if (const auto* func = call->op.as<FunctionNode>()) {
      auto composite = func->GetAttr<String>(attr::kComposite);
      if (composite) {
        std::string prefix = composite->str().substr(0, composite->str().find('.'));
        for (const std::string& compiler : compilers_) {
          if (compiler == prefix) return compiler;
        }
      }
    }
    return kDefault;
  }

  /// Closes the arguments' regions and opens that of a node. An empty target becomes the one that all arguments
  /// share, else "default".
  Array<Expr> Open(const Array<Expr>& args, std::string* target) {
    std::string common;
    std::vector<Expr> ends;
    for (const Expr& arg : args) {
      std::string from = kDefault;
      bool kept = IsCompilerBegin(arg);  // of an earlier run
      if (kept) {
        const Expr& inner = arg.as<CallNode>()->args[0];
        if (IsCompilerEnd(inner)) from = CompilerOf(inner);
        ends.push_back(arg);
      } else {
        auto it = target_of_.find(arg);
        if (it != target_of_.end()) from = it->second;
        const auto* call = arg.as<CallNode>();
        bool is_input = it == target_of_.end() || (call != nullptr && call->args.empty());
        ends.push_back(is_input || IsCompilerEnd(arg) ? arg : MakeCompilerEnd(arg, from));
      }
      common = common.empty() || common == from ? from : kDefault;
    }
    if (target->empty()) *target = common.empty() ? kDefault : common;
    Array<Expr> begins;
    for (const Expr& end : ends) begins.push_back(IsCompilerBegin(end) ? end : MakeCompilerBegin(end, *target));
    return begins;
  }

  Expr Assign(const Expr& expr, const std::string& target, const ExprNode* like) {
    WithTypeOf(expr, like);
    target_of_[expr] = target;
    return expr;
  }

  /// Closes the region of a value that leaves data flow.
  Expr Close(const Expr& expr) {
    auto it = target_of_.find(expr);
    if (it == target_of_.end() || IsCompilerEnd(expr)) return expr;
    return MakeCompilerEnd(expr, it->second);
  }

  Expr RewriteBegin(const Expr& begin) {
    // "default" is decided anew.
    return CompilerOf(begin) == kDefault ? begin.as<CallNode>()->args[0] : begin;
  }
  Expr RewriteEnd(const Expr& end) {
    const Expr& value = end.as<CallNode>()->args[0];
    auto it = target_of_.find(value);
    std::string target = it == target_of_.end() || CompilerOf(end) != kDefault ? CompilerOf(end) : it->second;
    if (CompilerOf(end) == kDefault && it != target_of_.end()) return value;
    target_of_[end] = target;
    return end;
  }

  std::vector<std::string> compilers_;
  bool include_non_call_ops_;
  std::unordered_map<Expr, std::string, ObjectPtrHash, ObjectPtrEqual> target_of_;
};

}  // namespace

void RegisterExternalOp(const std::string& compiler, const std::string& op_name, TargetPredicate predicate) {
  Op::Get(op_name);  // throws for an unknown one
  std::string name = PropertyName(compiler);
  OpRegistration(op_name).Set(OpAttrKey<TargetPredicate>{name.c_str()}, std::move(predicate));
}

bool ExternalOpSupported(const std::string& compiler, const CallNode* call, std::string* reason) {
  const auto* op = call->op.as<OpNode>();
  if (op == nullptr) return false;
  std::string name = PropertyName(compiler);
  const TargetPredicate* predicate = GetRef<Op>(op).GetAttr(OpAttrKey<TargetPredicate>{name.c_str()});
  if (predicate == nullptr) {
    if (reason != nullptr) *reason = "not an operator of " + compiler;
    return false;
  }
  std::string unused;
  return !*predicate || (*predicate)(call, reason != nullptr ? reason : &unused);
}

std::string ExternalRejections(const IRModule& module, const std::string& compiler) {
  std::map<std::string, std::string> reasons;
  for (const auto& [var, func] : module->functions) {
    if (func.as<FunctionNode>() == nullptr || func->attrs->dict.contains(attr::kCompiler)) continue;
    PostOrderVisit(func, [&](const Expr& e) {
      const auto* call = e.as<CallNode>();
      std::string reason;
      if (call == nullptr || call->op.as<OpNode>() == nullptr) return;
      if (!ExternalOpSupported(compiler, call, &reason)) reasons.emplace(OpName(call), reason);
    });
  }
  std::string text;
  for (const auto& [op, reason] : reasons) text += StrCat(op, ": ", reason.empty() ? "refused" : reason, "\n");
  return text;
}

namespace transform {

Pass AnnotateTarget(Array<String> compilers, bool include_non_call_ops) {
  std::vector<std::string> names;
  for (const String& compiler : compilers) names.push_back(compiler.str());
  return CreateFunctionPass(
      [names, include_non_call_ops](const Function& func, const IRModule&, const PassContext&) {
        return Downcast<Function>(Annotator(names, include_non_call_ops).Mutate(func));
      },
      {"AnnotateTarget", 0, {"InferType"}, "Marks what external code generators take"});
}

}  // namespace transform
}  // namespace treadle::relay
