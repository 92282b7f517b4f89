// SPDX-License-Identifier: Apache-2.0
// FuseOps: each group of the partitioner becomes one call of a function with attribute Primitive=1.
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "passes/graph_partitioner.h"
#include "passes/pass_util.h"
#include "treadle/ir/prim_expr.h"
#include "treadle/passes/passes.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::relay {
namespace {

/// Rewrites a function along the groups. A value that enters a group from outside becomes a parameter of the group's
/// function, in order of first use; the group's root becomes the call.
class FuseMutator : private ExprMutator {
 public:
  explicit FuseMutator(const FusionOptions& options)
      : options_(options), stop_fusion_(Op::Find("annotation.stop_fusion")) {}

  Expr Transform(const Expr& body) {
    graph_ = IndexedForwardGraph::Create(body);
    partitioner_ = std::make_unique<GraphPartitioner>(graph_, options_);
    return Mutate(body);
  }

 private:
  /// The function under construction for one group.
  struct Kernel {
    Array<Var> params;
    Array<Expr> args;
    std::unordered_map<const Object*, Var> param_of;
    bool has_call = false;
    bool reshape_only = true;

    Var GetOrAllocParam(const Expr& arg, const Type& type) {
      auto it = param_of.find(arg.get());
      if (it != param_of.end()) return it->second;
      if (type.as<TensorTypeNode>() == nullptr) reshape_only = false;
      Var param(StrCat("p", params.size()), type, arg->span);
      SetType(param, type);
      params.push_back(param);
      args.push_back(arg);
      param_of.emplace(arg.get(), param);
      return param;
    }
  };

  static void SetType(const Expr& expr, const Type& type) { const_cast<ExprNode*>(expr.get())->checked_type_ = type; }

  // What is rewritten keeps its type, so that it needn't be inferred again.
  Expr VisitExpr(const Expr& expr) override { return WithTypeOf(ExprMutator::VisitExpr(expr), expr.get()); }
  using ExprMutator::VisitExpr_;

  Expr VisitExpr_(const FunctionNode* func) override {
    if (func->is_primitive() || func->GetAttr<ObjectRef>(attr::kCompiler)) return GetRef<Function>(func);
    return ExprMutator::VisitExpr_(func);
  }

  Expr VisitExpr_(const CallNode* call) override {
    const auto* op = call->op.as<OpNode>();
    if (op == nullptr) return ExprMutator::VisitExpr_(call);
    if (stop_fusion_.defined() && op == stop_fusion_.get()) return Mutate(call->args[0]);
    Op callee = GetRef<Op>(op);
    if (callee.GetAttr(kNonComputational, false)) return ExprMutator::VisitExpr_(call);
    int root = RootOf(call);
    Array<Expr> args = EnterGroup(call->args, root);
    Kernel& kernel = kernels_[root];
    kernel.has_call = true;
    if (!callee.GetAttr(kReshapeOp, false)) kernel.reshape_only = false;
    Call inner(call->op, args, call->attrs, call->type_args, call->span);
    WithTypeOf(inner, call);
    return IsGroupResult(call, root) ? MakeKernelCall(root, call, inner) : inner;
  }

  Expr VisitExpr_(const TupleNode* tuple) override {
    int root = RootOf(tuple);
    // A tuple that a group would have as its result is built outside.
    if (IsGroupResult(tuple, root)) return ExprMutator::VisitExpr_(tuple);
    return Tuple(EnterGroup(tuple->fields, root), tuple->span);
  }

  Expr VisitExpr_(const TupleGetItemNode* item) override {
    int root = RootOf(item);
    if (IsGroupResult(item, root) && RootOf(item->tuple.get()) != root) return ExprMutator::VisitExpr_(item);
    Expr tuple = EnterGroup({item->tuple}, root)[0];
    TupleGetItem inner(tuple, item->index, item->span);
    WithTypeOf(inner, item);
    return IsGroupResult(item, root) ? MakeKernelCall(root, item, inner) : inner;
  }

  int RootOf(const ExprNode* node) {
    int index = graph_.Find(node);
    return index < 0 ? -1 : partitioner_->Root(index);
  }
  bool IsGroupResult(const ExprNode* node, int root) { return graph_.nodes()[root].ref == node; }

  /// The arguments as seen inside the group `root`.
  Array<Expr> EnterGroup(const Array<Expr>& args, int root) {
    std::vector<Expr> values;
    for (const Expr& arg : args) values.push_back(Mutate(arg));
    Array<Expr> result;
    for (size_t i = 0; i < args.size(); ++i) {
      const auto* constant = values[i].as<ConstantNode>();
      bool stays = constant != nullptr && options_.link_params;
      if (stays || RootOf(args[i].get()) == root) {
        result.push_back(values[i]);
      } else {
        result.push_back(kernels_[root].GetOrAllocParam(values[i], args[i]->checked_type()));
      }
    }
    return result;
  }

  Expr MakeKernelCall(int root, const ExprNode* result, const Expr& body) {
    const Kernel& kernel = kernels_[root];
    Map<String, ObjectRef> attrs;
    attrs.Set(attr::kPrimitive, IntImm(DataType::Int(32), kernel.has_call ? 1 : 0));
    if (kernel.has_call && kernel.reshape_only) attrs.Set(attr::kReshapeOnly, IntImm(DataType::Int(32), 1));
    Function func(kernel.params, body, result->checked_type(), {}, DictAttrs(attrs), result->span);
    SetType(func, func->func_type_annotation());
    return Call(func, kernel.args, Attrs(), {}, result->span);
  }

  FusionOptions options_;
  Op stop_fusion_;
  IndexedForwardGraph graph_;
  std::unique_ptr<GraphPartitioner> partitioner_;
  std::unordered_map<int, Kernel> kernels_;
};

FusionOptions OptionsFrom(int fuse_opt_level, const transform::PassContext& context) {
  FusionOptions options;
  options.opt_level = fuse_opt_level >= 0 ? fuse_opt_level : context->opt_level;
  options.max_depth = context->GetConfigInt(kFuseMaxDepth, 256);
  options.max_args = context->GetConfigInt(kFuseMaxArgs, 0);
  options.link_params = context->GetConfigBool(kFuseLinkParams, false);
  if (options.max_depth < 1) throw Error(StrCat(kFuseMaxDepth, " must be at least 1, not ", options.max_depth));
  return options;
}

}  // namespace

void RegisterFuseOpsOptions() {
  treadle::transform::RegisterPassConfig(kFuseMaxDepth, "int", "most operators in a fused function (256)");
  treadle::transform::RegisterPassConfig(kFuseMaxArgs, "int",
                                         "most arguments and results of a fused function (0: any number)");
  treadle::transform::RegisterPassConfig(kFuseLinkParams, "bool", "keep constants inside the fused functions");
}

namespace transform {

Pass FuseOps(int fuse_opt_level) {
  return CreateFunctionPass(
      [fuse_opt_level](const Function& func, const IRModule&, const PassContext& context) {
        return Downcast<Function>(FuseMutator(OptionsFrom(fuse_opt_level, context)).Transform(func));
      },
      {"FuseOps", 0, {"InferType"}, "Fuses operators into kernels along the post-dominator tree"});
}

namespace {

/// With the name of the model's node, where it has one.
std::string NamedNode(const ExprNode* node) {
  const bool imported = node->span.defined() && node->span->line == 0;
  return imported ? StrCat(DescribeNode(node), " '", node->span->source_name, "'") : DescribeNode(node);
}

}  // namespace

std::string FusionReport(const IRModule& module, const PassContext& context, int fuse_opt_level) {
  std::string text;
  FusionOptions options = OptionsFrom(fuse_opt_level, context);
  for (const auto& [var, base] : module->functions) {
    const auto* func = base.as<FunctionNode>();
    if (func == nullptr || func->GetAttr<ObjectRef>(attr::kCompiler) || func->is_primitive()) continue;
    IndexedForwardGraph graph = IndexedForwardGraph::Create(base);
    GraphPartitioner partitioner(graph, options);
    text += StrCat("@", var->name_hint, ":\n");
    std::vector<std::string> groups(graph.size());
    for (size_t i = 0; i < graph.size(); ++i) {
      const ExprNode* node = graph.nodes()[i].ref;
      if (!node->IsInstance<CallNode>() && !node->IsInstance<TupleGetItemNode>()) continue;
      std::string& group = groups[partitioner.Root(static_cast<int>(i))];
      group += (group.empty() ? "" : ", ") + NamedNode(node);
    }
    for (size_t i = 0; i < graph.size(); ++i) {
      if (!groups[i].empty()) text += StrCat("  group ", i, ": ", groups[i], "\n");
    }
    for (const FusionRejection& rejection : partitioner.Rejections()) {
      text += StrCat("  not fused: ", NamedNode(graph.nodes()[rejection.node].ref), " (node ", rejection.node, ")");
      if (rejection.dominator >= 0) {
        text +=
            StrCat(" into ", NamedNode(graph.nodes()[rejection.dominator].ref), " (node ", rejection.dominator, ")");
      }
      text += StrCat(": ", rejection.reason, "\n");
    }
  }
  return text;
}

}  // namespace transform
}  // namespace treadle::relay
