// SPDX-License-Identifier: Apache-2.0
#include "driver/evaluate/interpreter_code.h"

#include "passes/pass_util.h"
#include "relay/analysis/scopes.h"
#include "treadle/base/stack_guard.h"

namespace treadle::driver {

using relay::CallNode;
using relay::Expr;
using relay::FunctionNode;
using relay::IfNode;
using relay::LetNode;
using relay::MatchNode;
using relay::Pattern;
using relay::VarNode;

namespace {

using Kind = Instruction::Kind;

/// A function on its way to code.
struct Context {
  Code* code;
  Context* parent;
  const Object* self;                            ///< identity of the variable that stands for the function itself
  std::unordered_map<const Object*, int> slots;  ///< of nodes, and of variables by identity

  int NewSlot() { return code->slots++; }

  /// The slot that holds a value within this function; captures it if it comes from outside. -1: there is none.
  int Find(const Object* key) {
    auto it = slots.find(key);
    if (it != slots.end()) return it->second;
    if (key == self) return slots[key] = code->self = NewSlot();
    if (parent == nullptr) return -1;
    const int outer = parent->Find(key);
    if (outer < 0) return -1;
    const int inner = NewSlot();
    code->captures.emplace_back(outer, inner);
    return slots[key] = inner;
  }
};

/// Where the code of a scope goes.
struct Home {
  Context* context;
  int block;
};

bool IsNamed(const Expr& expr) {
  return expr.as<OpNode>() != nullptr || expr.as<ConstructorNode>() != nullptr || expr.as<GlobalVarNode>() != nullptr;
}

const Object* KeyOf(const Expr& expr) {
  const auto* var = expr.as<VarNode>();
  return var != nullptr ? static_cast<const Object*>(var->vid.get()) : expr.get();
}

}  // namespace

class CodeBuilder {
 public:
  CodeBuilder(CodeTable* table, const relay::Function& root) : table_(table), scopes_(root) {}

  int BuildFunction(const relay::Function& func, Context* parent, const Object* self) {
    const auto number = static_cast<int>(table_->codes_.size());
    table_->codes_.push_back(std::make_unique<Code>());
    Code* code = table_->codes_.back().get();
    code->source = func;
    Context context{code, parent, self, {}};
    for (const relay::Var& param : func->params) {
      code->params.push_back(context.NewSlot());
      context.slots[param->vid.get()] = code->params.back();
    }
    code->blocks.emplace_back();
    BuildBlock(scopes_.InnerScope(func, 0), func->body, {&context, 0});
    return number;
  }

 private:
  struct Frame {
    Expr expr;
    std::vector<Expr> children;
    size_t next = 0;
  };

  void BuildBlock(int scope, const Expr& body, Home home) {
    homes_[scope] = home;
    Build(body);
    home.context->code->blocks[static_cast<size_t>(home.block)].result = SlotOf(body, home.context);
  }

  Home HomeOf(const Expr& expr) { return homes_.at(scopes_.ScopeOf(expr)); }

  bool IsBuilt(const Expr& expr) {
    if (expr.as<VarNode>()) return true;
    return HomeOf(expr).context->slots.count(expr.get()) != 0;
  }

  int SlotOf(const Expr& expr, Context* context) {
    const int slot = context->Find(KeyOf(expr));
    if (slot < 0) {
      const auto* var = expr.as<VarNode>();
      throw Error(var != nullptr ? StrCat("variable %", var->name_hint(), " isn't bound",
                                          var->span.defined() ? " at " + var->span.str() : "")
                                 : StrCat("a value is used where it isn't computed: ", expr->type_key()));
    }
    return slot;
  }

  /// Emits the code of `root` and of what it needs, each into the block of its own scope.
  void Build(const Expr& root) {
    std::vector<Frame> stack;
    auto enter = [&](const Expr& expr) {
      if (IsBuilt(expr)) return;
      stack.push_back({expr, Children(expr), 0});
    };
    enter(root);
    while (!stack.empty()) {
      Frame& top = stack.back();
      const Expr expr = top.expr;
      if (top.next < top.children.size()) {
        const Expr child = top.children[top.next++];
        // A let binds its variable between its value and its body.
        const auto* let = expr.as<LetNode>();
        if (let != nullptr && top.next == 2) {
          Context* context = HomeOf(expr).context;
          context->slots[let->var->vid.get()] = SlotOf(let->value, context);
        } else if (let != nullptr && let->value.as<FunctionNode>() && !IsBuilt(child)) {
          self_[child.get()] = let->var->vid.get();
        }
        enter(child);
        continue;
      }
      stack.pop_back();
      if (!IsBuilt(expr)) Finish(expr);
    }
  }

  /// What is evaluated before the node, in order; scopes of its own excepted.
  static std::vector<Expr> Children(const Expr& expr) {
    if (expr.as<FunctionNode>()) return {};
    if (const auto* branch = expr.as<IfNode>()) return {branch->cond};
    if (const auto* match = expr.as<MatchNode>()) return {match->data};
    if (const auto* let = expr.as<LetNode>()) return {let->value, let->body};
    std::vector<Expr> children;
    if (const auto* call = expr.as<CallNode>()) {
      if (!IsNamed(call->op)) children.push_back(call->op);
      children.insert(children.end(), call->args.begin(), call->args.end());
      return children;
    }
    relay::CollectChildren(expr, &children);
    return children;
  }

  void Finish(const Expr& expr) {
    const Home home = HomeOf(expr);
    Context* context = home.context;
    if (const auto* let = expr.as<LetNode>()) {
      context->slots[expr.get()] = SlotOf(let->body, context);
      return;
    }
    Instruction in{KindOf(expr), 0, 0, {}, expr};
    for (const Expr& child : Children(expr)) in.args.push_back(SlotOf(child, context));
    if (const auto* item = expr.as<relay::TupleGetItemNode>()) in.index = item->index;
    if (expr.as<FunctionNode>()) in.index = BuildLiteral(Downcast<relay::Function>(expr), context);
    if (const auto* branch = expr.as<IfNode>()) {
      in.index = BuildArms(expr, {branch->true_branch, branch->false_branch}, context);
    }
    if (const auto* match = expr.as<MatchNode>()) {
      std::vector<Expr> arms;
      for (const relay::Clause& clause : match->clauses) {
        DefinePattern(clause->lhs, context);
        arms.push_back(clause->rhs);
      }
      in.index = BuildArms(expr, arms, context);
    }
    in.dst = context->NewSlot();
    context->slots[expr.get()] = in.dst;
    context->code->blocks[static_cast<size_t>(home.block)].instructions.push_back(std::move(in));
  }

  static Kind KindOf(const Expr& expr) {
    if (const auto* call = expr.as<CallNode>()) {
      if (call->op.as<OpNode>()) return Kind::kOperator;
      if (call->op.as<ConstructorNode>()) return Kind::kConstruct;
      return call->op.as<GlobalVarNode>() ? Kind::kCallGlobal : Kind::kCall;
    }
    if (expr.as<relay::ConstantNode>()) return Kind::kConstant;
    if (IsNamed(expr)) return Kind::kGlobal;
    if (expr.as<relay::TupleNode>()) return Kind::kTuple;
    if (expr.as<relay::TupleGetItemNode>()) return Kind::kField;
    if (expr.as<FunctionNode>()) return Kind::kClosure;
    if (expr.as<IfNode>()) return Kind::kIf;
    if (expr.as<MatchNode>()) return Kind::kMatch;
    if (expr.as<relay::RefCreateNode>()) return Kind::kRefCreate;
    if (expr.as<relay::RefReadNode>()) return Kind::kRefRead;
    if (expr.as<relay::RefWriteNode>()) return Kind::kRefWrite;
    throw Error(StrCat("the interpreter doesn't know nodes of kind ", expr->type_key()));
  }

  int BuildLiteral(const relay::Function& func, Context* context) {
    auto self = self_.find(func.get());
    const Object* var = self == self_.end() ? nullptr : self->second;
    return WithEnoughStack([&] { return BuildFunction(func, context, var); });
  }

  int BuildArms(const Expr& expr, const std::vector<Expr>& arms, Context* context) {
    auto& blocks = context->code->blocks;
    const auto first = static_cast<int>(blocks.size());
    blocks.resize(blocks.size() + arms.size());
    for (size_t i = 0; i < arms.size(); ++i) {
      const auto offset = static_cast<int>(i);
      WithEnoughStack([&] { BuildBlock(scopes_.InnerScope(expr, offset), arms[i], {context, first + offset}); });
    }
    return first;
  }

  void DefinePattern(const Pattern& root, Context* context) {
    std::vector<Pattern> stack = {root};
    while (!stack.empty()) {
      const Pattern pattern = stack.back();
      stack.pop_back();
      if (const auto* var = pattern.as<relay::PatternVarNode>()) {
        const Object* vid = var->var->vid.get();
        context->slots[vid] = context->code->pattern_vars[vid] = context->NewSlot();
      } else if (const auto* constructor = pattern.as<relay::PatternConstructorNode>()) {
        for (const Pattern& inner : constructor->patterns) stack.push_back(inner);
      } else if (const auto* tuple = pattern.as<relay::PatternTupleNode>()) {
        for (const Pattern& inner : tuple->patterns) stack.push_back(inner);
      }
    }
  }

  CodeTable* table_;
  relay::ScopeAnalysis scopes_;
  std::unordered_map<int, Home> homes_;
  std::unordered_map<const Object*, const Object*> self_;
};

int CodeTable::Add(const relay::Function& func) {
  // Code is laid out by variable, so each is bound in one place.
  const relay::Function unique =
      relay::WellFormed(func) ? func : Downcast<relay::Function>(relay::RenameBoundVars(func));
  return CodeBuilder(this, unique).BuildFunction(unique, nullptr, nullptr);
}

}  // namespace treadle::driver
