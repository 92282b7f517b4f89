// SPDX-License-Identifier: Apache-2.0
// Groups of nodes that match a pattern; rewriting them, and cutting them out.
#include <algorithm>

#include "relay/dataflow/matcher.h"
#include "treadle/ir/structural.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {
namespace {

constexpr int kMaxRounds = 100;

struct Group {
  Expr root;
  DFMatch match;
  Function function;  ///< the matched nodes, of the inputs
  Array<Expr> args;
  std::string name;  ///< "nn.conv2d_add_": the nodes, inner ones first
};

/// Copies what a match consists of onto parameters that stand for its inputs.
class Extractor : public ExprMutator {
 public:
  explicit Extractor(const std::unordered_map<Expr, Var, ObjectPtrHash, ObjectPtrEqual>& inputs) : inputs_(inputs) {}
  const std::string& name() const { return name_; }
  const auto& copies() const { return memo_; }

  Expr VisitExpr(const Expr& expr) override {
    auto it = inputs_.find(expr);
    if (it != inputs_.end()) return it->second;
    return ExprMutator::VisitExpr(expr);
  }

 private:
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const CallNode* call) override {
    Expr result = ExprMutator::VisitExpr_(call);
    const auto* op = call->op.as<OpNode>();
    name_ += (op != nullptr ? op->name : "Call") + "_";
    return result;
  }
  Expr VisitExpr_(const TupleNode* op) override { return Named(ExprMutator::VisitExpr_(op), "Tuple_"); }
  Expr VisitExpr_(const TupleGetItemNode* op) override {
    return Named(ExprMutator::VisitExpr_(op), StrCat("TupleGetItem", op->index, "_"));
  }
  Expr VisitExpr_(const FunctionNode* op) override { return Named(ExprMutator::VisitExpr_(op), "Function_"); }
  Expr VisitExpr_(const LetNode* op) override { return Named(ExprMutator::VisitExpr_(op), "Let_"); }
  Expr VisitExpr_(const IfNode* op) override { return Named(ExprMutator::VisitExpr_(op), "If_"); }
  Expr VisitExpr_(const MatchNode* op) override { return Named(ExprMutator::VisitExpr_(op), "Match_"); }

  Expr Named(Expr expr, const std::string& name) {
    name_ += name;
    return expr;
  }

  const std::unordered_map<Expr, Var, ObjectPtrHash, ObjectPtrEqual>& inputs_;
  std::string name_;
};

/// Finds matches that don't overlap, outermost first.
class PatternGrouper {
 public:
  PatternGrouper(const DFPattern& pattern, const Expr& root, const IRModule& module)
      : pattern_(pattern), graph_(root), matcher_(pattern, &graph_, module) {
    OrderPatterns();
    std::unordered_set<const Object*> closed;
    const auto& nodes = graph_.nodes();
    for (size_t i = nodes.size(); i-- > 0;) {
      const Expr& node = nodes[i];
      if (grouped_.count(node.get()) != 0) continue;
      if (const auto* func = node.as<FunctionNode>()) {
        // What was cut out or fused before is left alone.
        if (func->attrs->dict.contains(attr::kPartitionedFromPattern) || func->attrs->dict.contains(attr::kCompiler) ||
            func->is_primitive()) {
          PostOrderVisit(node, [&](const Expr& inner) { closed.insert(inner.get()); });
        }
      }
      if (closed.count(node.get()) == 0 && matcher_.Match(node)) CreateGroup(node);
    }
  }

  /// The group whose root is `node`, or null.
  const Group* RootedAt(const Object* node) const {
    auto it = groups_.find(node);
    return it == groups_.end() ? nullptr : &it->second;
  }

 private:
  /// Inner patterns first, each once; operands from left to right.
  void OrderPatterns() {
    std::vector<std::pair<DFPattern, bool>> stack = {{pattern_, false}};
    std::unordered_set<const Object*> seen;
    while (!stack.empty()) {
      auto [pattern, done] = stack.back();
      stack.pop_back();
      if (done) {
        patterns_.push_back(pattern);
        continue;
      }
      if (!seen.insert(pattern.get()).second) continue;
      stack.emplace_back(pattern, true);
      const std::vector<DFPattern> children = ChildPatterns(pattern);
      for (size_t i = children.size(); i-- > 0;) stack.emplace_back(children[i], false);
    }
  }

  /// Constants that the pattern asks for belong to the match.
  static bool StaysInside(const Expr& expr, const DFPattern& pattern) {
    if (expr.as<ConstantNode>() == nullptr) return false;
    if (pattern.as<ConstantPatternNode>()) return true;
    const auto* exact = pattern.as<ExprPatternNode>();
    return exact != nullptr && exact->expr.as<ConstantNode>();
  }

  /// Nodes that belong to the match although patterns without parts stand for them.
  std::unordered_set<const Object*> InnerNodes() const {
    std::unordered_set<const Object*> inner;
    auto add = [&](const DFPattern& pattern) {
      const std::vector<Expr>* bound = matcher_.BoundTo(pattern);
      if (bound == nullptr) return;
      for (const Expr& expr : *bound) inner.insert(expr.get());
    };
    for (const DFPattern& pattern : patterns_) {
      if (matcher_.BoundTo(pattern) == nullptr) continue;
      if (const auto* dominator = pattern.as<DominatorPatternNode>()) {
        add(dominator->parent);
        add(dominator->path);
      } else if (const auto* func = pattern.as<FunctionPatternNode>()) {
        for (const DFPattern& param : func->params) add(param);
        add(func->body);
      }
    }
    return inner;
  }

  void CreateGroup(const Expr& root) {
    Group group;
    group.root = root;
    group.match = matcher_.match();
    std::unordered_map<Expr, Var, ObjectPtrHash, ObjectPtrEqual> inputs;
    Array<Var> params;
    const std::unordered_set<const Object*> inner = InnerNodes();
    auto add_input = [&](const Expr& input, const DFPattern& pattern) {
      if (inner.count(input.get()) != 0 || input.as<OpNode>() || input.as<FunctionNode>()) return;
      if (input.same_as(root) || StaysInside(input, pattern) || inputs.count(input) != 0) return;
      Var param(StrCat("FunctionVar_", next_, "_", params.size()), input->checked_type_, input->span);
      inputs.emplace(input, param);
      params.push_back(param);
      group.args.push_back(input);
    };
    for (const DFPattern& pattern : patterns_) {
      const std::vector<Expr>* bound = matcher_.BoundTo(pattern);
      if (bound == nullptr) continue;
      for (const Expr& expr : *bound) {
        const auto* call = pattern.as<CallPatternNode>();
        const auto* tuple = pattern.as<TuplePatternNode>();
        if (call != nullptr && call->any_args) {
          for (const Expr& arg : static_cast<const CallNode*>(expr.get())->args) add_input(arg, pattern);
        } else if (tuple != nullptr && tuple->any_fields) {
          for (const Expr& field : static_cast<const TupleNode*>(expr.get())->fields) add_input(field, pattern);
        } else if (call == nullptr && ChildPatterns(pattern).empty()) {
          add_input(expr, pattern);
        }
      }
    }
    ++next_;
    Extractor extractor(inputs);
    Expr body = extractor.Mutate(root);
    if (!IsSeparable(root, extractor.copies())) return;
    for (const auto& [expr, copy] : extractor.copies()) grouped_.insert(expr.get());
    group.function = Function(params, body, root->checked_type_, {}, DictAttrs(Map<String, ObjectRef>()), root->span);
    group.name = extractor.name();
    groups_.emplace(root.get(), std::move(group));
  }

  /// Whether no other group has a node of this one, and none but the root is used outside.
  template <typename Copies>
  bool IsSeparable(const Expr& root, const Copies& copies) const {
    for (const auto& [expr, copy] : copies) {
      if (expr.template as<OpNode>() || expr.template as<FunctionNode>() || expr.template as<ConstantNode>() ||
          expr.template as<GlobalVarNode>() || expr.template as<ConstructorNode>()) {
        continue;
      }
      if (grouped_.count(expr.get()) != 0) return false;
      if (expr.same_as(root)) continue;
      for (const Object* user : graph_.UsersOf(expr.get())) {
        if (copies.count(GetRef<Expr>(static_cast<const ExprNode*>(user))) == 0) return false;
      }
    }
    return true;
  }

  DFPattern pattern_;
  UseGraph graph_;
  PatternMatcher matcher_;
  std::vector<DFPattern> patterns_;
  std::unordered_set<const Object*> grouped_;
  std::unordered_map<const Object*, Group> groups_;
  int next_ = 0;
};

/// Rebuilds an expression; roots of groups go through `Replace`.
class GroupMutator : public MixedModeMutator {
 public:
  explicit GroupMutator(const PatternGrouper& groups) : groups_(groups) {}

  Expr VisitExpr(const Expr& expr) override {
    auto it = memo_.find(expr);
    if (it != memo_.end()) return it->second;
    Expr result = MixedModeMutator::VisitExpr(expr);
    const bool is_data_flow = expr.as<CallNode>() || expr.as<TupleNode>() || expr.as<TupleGetItemNode>();
    if (!is_data_flow) result = Apply(expr, result);  // data flow went through Rewrite_
    return memo_[expr] = result;
  }

 protected:
  virtual Expr Replace(const Group& group, const Expr& pre, const Expr& post) = 0;

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override { return Apply(GetRef<Expr>(pre), post); }
  Expr Rewrite_(const TupleNode* pre, const Expr& post) override { return Apply(GetRef<Expr>(pre), post); }
  Expr Rewrite_(const TupleGetItemNode* pre, const Expr& post) override { return Apply(GetRef<Expr>(pre), post); }

  Expr Apply(const Expr& pre, const Expr& post) {
    const Group* group = groups_.RootedAt(pre.get());
    return group == nullptr ? post : Replace(*group, pre, post);
  }

  const PatternGrouper& groups_;
};

class Rewriter : public GroupMutator {
 public:
  Rewriter(const PatternGrouper& groups, const DFPatternCallback& callback)
      : GroupMutator(groups), callback_(callback) {}

 private:
  Expr Replace(const Group& group, const Expr& pre, const Expr& post) override {
    DFMatch match;
    for (const auto& [pattern, exprs] : group.match) {
      match.Set(pattern, exprs.Map([&](const Expr& expr) {
        if (expr.same_as(pre)) return post;
        auto it = memo_.find(expr);
        return it == memo_.end() ? expr : it->second;
      }));
    }
    Expr result = callback_.rewrite(pre, post, match);
    if (!result.defined()) throw Error("a rewrite of a pattern gave no expression");
    return result;
  }

  const DFPatternCallback& callback_;
};

class Partitioner : public GroupMutator {
 public:
  Partitioner(const PatternGrouper& groups, const Map<String, ObjectRef>& attrs,
              const std::function<bool(const Expr&)>& check)
      : GroupMutator(groups), attrs_(attrs), check_(check) {}

 private:
  Expr Replace(const Group& group, const Expr& pre, const Expr& post) override {
    if (check_ && !check_(pre)) return post;
    Function func = WithAttr(group.function, attr::kPartitionedFromPattern, String(group.name));
    for (const auto& [name, value] : attrs_) func = WithAttr(func, name.str(), value);
    Array<Expr> args = group.args.Map([this](const Expr& arg) { return Mutate(arg); });
    return Call(func, args, Attrs(), {}, pre->span);
  }

  const Map<String, ObjectRef>& attrs_;
  const std::function<bool(const Expr&)>& check_;
};

}  // namespace

Expr RewritePatterns(const std::vector<DFPatternCallback>& callbacks, const Expr& expr, const IRModule& module) {
  Expr current = expr;
  for (int round = 0; round < kMaxRounds; ++round) {
    const Expr before = current;
    bool once = true;
    for (const DFPatternCallback& callback : callbacks) {
      once = once && callback.rewrite_once;
      if (round > 0 && callback.rewrite_once) continue;
      if (callback.require_type) current = InferType(current, module);
      PatternGrouper groups(callback.pattern, current, module);
      current = Rewriter(groups, callback).Mutate(current);
    }
    if (once || current.same_as(before) || StructuralEqual(current, before)) return current;
  }
  throw Error(StrCat("rewriting doesn't end: something changed in each of ", kMaxRounds,
                     " rounds; does one pattern undo what another does?"));
}

Expr PartitionPattern(const DFPattern& pattern, const Expr& expr, const Map<String, ObjectRef>& attrs,
                      const std::function<bool(const Expr&)>& check) {
  PatternGrouper groups(pattern, expr, IRModule());
  return Partitioner(groups, attrs, check).Mutate(expr);
}

}  // namespace treadle::relay
