// SPDX-License-Identifier: Apache-2.0
#include "relay/dataflow/matcher.h"

#include <algorithm>

#include "treadle/base/stack_guard.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/structural.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {
namespace {

constexpr size_t kMaxRememberedTrail = 4096;

/// Whether the pattern stands for that operator.
bool IsPatternOf(const DFPattern& pattern, const char* op) {
  const auto* expr = pattern.as<ExprPatternNode>();
  return expr != nullptr && expr->expr.as<OpNode>() && expr->expr.as<OpNode>()->name == op;
}
bool IsCallOfOp(const Expr& expr, const char* op) {
  const auto* call = expr.as<CallNode>();
  return call != nullptr && call->op.as<OpNode>() && call->op.as<OpNode>()->name == op;
}

bool NumberEquals(const ObjectRef& value, double number) {
  if (const auto* integer = value.as<IntImmNode>()) return static_cast<double>(integer->value) == number;
  if (const auto* real = value.as<FloatImmNode>()) return real->value == number;
  return false;
}
bool TextEquals(const ObjectRef& value, const std::string& text) {
  const auto* string = value.as<StringNode>();
  return string != nullptr && string->value == text;
}

/// Equal as attributes: integers of any width are the same.
bool ValuesEqual(const ObjectRef& a, const ObjectRef& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (const auto* integer = a.as<IntImmNode>()) return NumberEquals(b, static_cast<double>(integer->value));
  if (const auto* text = a.as<StringNode>()) return TextEquals(b, text->value);
  const auto* x = a.as<ArrayNode>();
  const auto* y = b.as<ArrayNode>();
  if (x == nullptr || y == nullptr) return StructuralEqual(a, b);
  return std::equal(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(),
                    [](const ObjectRef& p, const ObjectRef& q) { return ValuesEqual(p, q); });
}

template <typename T, typename Equals>
bool ListEquals(const std::vector<T>& list, const ObjectRef& value, Equals equals) {
  const auto* array = value.as<ArrayNode>();
  if (array == nullptr || array->items.size() != list.size()) return false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!equals(array->items[i], list[i])) return false;
  }
  return true;
}

bool FieldEquals(const FieldInfo& field, const Object* attrs, const ObjectRef& value) {
  auto integer_equals = [](const ObjectRef& item, int64_t number) {
    const auto* integer = item.as<IntImmNode>();
    return integer != nullptr && integer->value == number;
  };
  switch (field.kind) {
    case FieldKind::kBool:
      return NumberEquals(value, field.Get<bool>(attrs) ? 1 : 0);
    case FieldKind::kInt32:
      return NumberEquals(value, field.Get<int>(attrs));
    case FieldKind::kInt64:
      return integer_equals(value, field.Get<int64_t>(attrs));
    case FieldKind::kDouble:
      return NumberEquals(value, field.Get<double>(attrs));
    case FieldKind::kString:
      return TextEquals(value, field.Get<std::string>(attrs));
    case FieldKind::kDataType:
      return TextEquals(value, field.Get<DataType>(attrs).str());
    case FieldKind::kObject:
      return ValuesEqual(field.Get<ObjectRef>(attrs), value);
    case FieldKind::kInt64s:
      return ListEquals(field.Get<std::vector<int64_t>>(attrs), value, integer_equals);
    case FieldKind::kDoubles:
      return ListEquals(field.Get<std::vector<double>>(attrs), value, NumberEquals);
    case FieldKind::kStrings:
      return ListEquals(field.Get<std::vector<std::string>>(attrs), value, TextEquals);
    case FieldKind::kOptInt64: {
      const auto& number = field.Get<std::optional<int64_t>>(attrs);
      return number ? integer_equals(value, *number) : !value.defined();
    }
    case FieldKind::kOptDouble: {
      const auto& number = field.Get<std::optional<double>>(attrs);
      return number ? NumberEquals(value, *number) : !value.defined();
    }
    case FieldKind::kOptInt64s: {
      const auto& list = field.Get<std::optional<std::vector<int64_t>>>(attrs);
      return list ? ListEquals(*list, value, integer_equals) : !value.defined();
    }
  }
  return false;
}

bool PropertyEquals(const std::any& property, const ObjectRef& value) {
  if (const auto* kind = std::any_cast<OpPatternKind>(&property)) return NumberEquals(value, static_cast<int>(*kind));
  if (const auto* flag = std::any_cast<bool>(&property)) return NumberEquals(value, *flag ? 1 : 0);
  if (const auto* number = std::any_cast<int>(&property)) return NumberEquals(value, *number);
  if (const auto* text = std::any_cast<std::string>(&property)) return TextEquals(value, *text);
  return false;
}

}  // namespace

UseGraph::UseGraph(const Expr& root) {
  PostOrderVisit(root, [&](const Expr& e) {
    nodes_.push_back(e);
    std::vector<Expr> children;
    CollectChildren(e, &children);
    for (const Expr& child : children) users_[child.get()].push_back(e.get());
  });
}

const std::vector<const Object*>& UseGraph::UsersOf(const Object* node) const {
  static const std::vector<const Object*> kNone;
  auto it = users_.find(node);
  return it == users_.end() ? kNone : it->second;
}

std::vector<DFPattern> ChildPatterns(const DFPattern& pattern) {
  auto with = [](const DFPattern& first, const Array<DFPattern>& rest) {
    std::vector<DFPattern> all = {first};
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  };
  if (const auto* call = pattern.as<CallPatternNode>()) return with(call->op, call->args);
  if (const auto* func = pattern.as<FunctionPatternNode>()) return with(func->body, func->params);
  if (const auto* let = pattern.as<LetPatternNode>()) return {let->var, let->value, let->body};
  if (const auto* branch = pattern.as<IfPatternNode>())
    return {branch->cond, branch->true_branch, branch->false_branch};
  if (const auto* tuple = pattern.as<TuplePatternNode>()) return {tuple->fields.begin(), tuple->fields.end()};
  if (const auto* item = pattern.as<TupleGetItemPatternNode>()) return {item->tuple};
  if (const auto* alternatives = pattern.as<AltPatternNode>()) return {alternatives->left, alternatives->right};
  if (const auto* type = pattern.as<TypePatternNode>()) return {type->pattern};
  if (const auto* shape = pattern.as<ShapePatternNode>()) return {shape->pattern};
  if (const auto* dtype = pattern.as<DataTypePatternNode>()) return {dtype->pattern};
  if (const auto* attrs = pattern.as<AttrPatternNode>()) return {attrs->pattern};
  if (const auto* dominator = pattern.as<DominatorPatternNode>()) {
    return {dominator->parent, dominator->path, dominator->child};
  }
  return {};
}

size_t PatternMatcher::KeyHash::operator()(const Key& key) const {
  auto mix = [](size_t h, const void* p) { return (h ^ std::hash<const void*>()(p)) * 0x9e3779b97f4a7c15u; };
  size_t hash = mix(mix(key.on_path ? 1 : 0, key.pattern), key.expr);
  for (const Object* object : key.bound) hash = mix(hash, object);
  return hash;
}

PatternMatcher::PatternMatcher(DFPattern pattern, const UseGraph* graph, IRModule module)
    : pattern_(std::move(pattern)), graph_(graph), module_(std::move(module)) {
  std::vector<DFPattern> stack = {pattern_};
  std::unordered_set<const Object*> seen = {pattern_.get()};
  while (!stack.empty()) {
    const DFPattern top = stack.back();
    stack.pop_back();
    for (const DFPattern& child : ChildPatterns(top)) {
      ++parents_[child.get()];
      if (seen.insert(child.get()).second) stack.push_back(child);
    }
  }
}

/// The patterns within `pattern` that other parts of the whole use too: what they are bound to decides whether
/// `pattern` matches.
const std::vector<const Object*>& PatternMatcher::SharedIn(const DFPattern& pattern) {
  auto it = shared_.find(pattern.get());
  if (it != shared_.end()) return it->second;
  std::vector<const Object*> shared;
  std::vector<DFPattern> stack = {pattern};
  std::unordered_set<const Object*> seen = {pattern.get()};
  while (!stack.empty()) {
    const DFPattern top = stack.back();
    stack.pop_back();
    // Operators match the same everywhere.
    const auto* expr = top.as<ExprPatternNode>();
    if (parents_[top.get()] > 1 && (expr == nullptr || !expr->expr.as<OpNode>())) shared.push_back(top.get());
    for (const DFPattern& child : ChildPatterns(top)) {
      if (seen.insert(child.get()).second) stack.push_back(child);
    }
  }
  return shared_[pattern.get()] = shared;
}

bool PatternMatcher::Match(const Expr& expr) {
  trail_.clear();
  bound_.clear();
  memo_.clear();
  on_path_ = false;
  return Visit(pattern_, expr);
}

DFMatch PatternMatcher::match() const {
  std::unordered_map<const Object*, std::vector<Expr>> unique;
  DFMatch result;
  for (const auto& [pattern, expr] : trail_) {
    Array<Expr> exprs = result.Get(pattern).value_or(Array<Expr>());
    bool known = false;
    for (const Expr& other : exprs) known |= other.same_as(expr);
    if (known) continue;
    exprs.push_back(expr);
    result.Set(pattern, exprs);
  }
  return result;
}

const std::vector<Expr>* PatternMatcher::BoundTo(const DFPattern& pattern) const {
  auto it = bound_.find(pattern.get());
  return it == bound_.end() || it->second.empty() ? nullptr : &it->second;
}

void PatternMatcher::Bind(const DFPattern& pattern, const Expr& expr) {
  trail_.emplace_back(pattern, expr);
  bound_[pattern.get()].push_back(expr);
}

void PatternMatcher::Undo(size_t length) {
  while (trail_.size() > length) {
    bound_[trail_.back().first.get()].pop_back();
    trail_.pop_back();
  }
}

bool PatternMatcher::Visit(const DFPattern& pattern, const Expr& expr) {
  if (!on_path_) {
    const std::vector<Expr>* bound = BoundTo(pattern);
    const auto* op = pattern.as<ExprPatternNode>();
    if (bound != nullptr && (op == nullptr || !op->expr.as<OpNode>())) return expr.same_as(bound->front());
  }
  // Leaves are quicker to try than to look up.
  if (ChildPatterns(pattern).empty()) {
    if (!VisitKind(pattern, expr)) return false;
    Bind(pattern, expr);
    return true;
  }
  Key key{pattern.get(), expr.get(), on_path_, {}};
  for (const Object* shared : SharedIn(pattern)) {
    auto it = bound_.find(shared);
    key.bound.push_back(it == bound_.end() || it->second.empty() ? nullptr : it->second.front().get());
  }
  auto known = memo_.find(key);
  if (known != memo_.end()) {
    if (!known->second) return false;
    for (const auto& [inner, bound] : Trail(*known->second)) Bind(inner, bound);
    return true;
  }
  const size_t before = trail_.size();
  const bool matches = WithEnoughStack([&] { return VisitKind(pattern, expr); });
  if (!matches) {
    Undo(before);
    memo_[key] = std::nullopt;
    return false;
  }
  Bind(pattern, expr);
  if (trail_.size() - before <= kMaxRememberedTrail) {
    memo_[key] = Trail(trail_.begin() + static_cast<std::ptrdiff_t>(before), trail_.end());
  }
  return true;
}

bool PatternMatcher::VisitKind(const DFPattern& pattern, const Expr& expr) {
  if (pattern.as<WildcardPatternNode>()) return true;
  if (pattern.as<ConstantPatternNode>()) return expr.as<ConstantNode>() != nullptr;
  if (const auto* p = pattern.as<ExprPatternNode>()) return p->expr.same_as(expr) || StructuralEqual(p->expr, expr);
  if (const auto* p = pattern.as<VarPatternNode>()) {
    const auto* var = expr.as<VarNode>();
    return var != nullptr && (p->name.empty() || p->name == var->name_hint());
  }
  if (const auto* p = pattern.as<CallPatternNode>()) return VisitCall(p, expr);
  if (const auto* p = pattern.as<AltPatternNode>()) return Visit(p->left, expr) || Visit(p->right, expr);
  if (const auto* p = pattern.as<AttrPatternNode>()) return Visit(p->pattern, expr) && VisitAttr(p, expr);
  if (const auto* p = pattern.as<DominatorPatternNode>()) return VisitDominator(p, expr);
  if (const auto* p = pattern.as<FunctionPatternNode>()) return VisitFunction(p, expr);
  if (const auto* p = pattern.as<TuplePatternNode>()) {
    const auto* tuple = expr.as<TupleNode>();
    return tuple != nullptr && (p->any_fields || VisitAll(p->fields, tuple->fields));
  }
  if (const auto* p = pattern.as<TupleGetItemPatternNode>()) {
    const auto* item = expr.as<TupleGetItemNode>();
    return item != nullptr && (p->index < 0 || p->index == item->index) && Visit(p->tuple, item->tuple);
  }
  if (const auto* p = pattern.as<IfPatternNode>()) {
    const auto* branch = expr.as<IfNode>();
    return branch != nullptr && Visit(p->cond, branch->cond) && Visit(p->true_branch, branch->true_branch) &&
           Visit(p->false_branch, branch->false_branch);
  }
  if (const auto* p = pattern.as<LetPatternNode>()) {
    const auto* let = expr.as<LetNode>();
    return let != nullptr && Visit(p->var, let->var) && Visit(p->value, let->value) && Visit(p->body, let->body);
  }
  if (const auto* p = pattern.as<TypePatternNode>()) {
    Type type = TypeOf(expr);
    return type.defined() && StructuralEqual(p->type, type) && Visit(p->pattern, expr);
  }
  if (const auto* p = pattern.as<ShapePatternNode>()) {
    Type type = TypeOf(expr);
    const auto* tensor = type.as<TensorTypeNode>();
    return tensor != nullptr && ValuesEqual(p->shape, tensor->shape) && Visit(p->pattern, expr);
  }
  if (const auto* p = pattern.as<DataTypePatternNode>()) {
    Type type = TypeOf(expr);
    const auto* tensor = type.as<TensorTypeNode>();
    return tensor != nullptr && tensor->dtype == p->dtype && Visit(p->pattern, expr);
  }
  throw InternalError(StrCat("internal error: unknown kind of pattern ", pattern->type_key()));
}

bool PatternMatcher::VisitAll(const Array<DFPattern>& patterns, const Array<Expr>& exprs, bool swapped) {
  if (patterns.size() != exprs.size()) return false;
  for (size_t i = 0; i < exprs.size(); ++i) {
    if (!Visit(patterns[swapped ? exprs.size() - 1 - i : i], exprs[i])) return false;
  }
  return true;
}

bool PatternMatcher::VisitCall(const CallPatternNode* pattern, const Expr& expr) {
  const auto* call = expr.as<CallNode>();
  if (call == nullptr) return false;
  const size_t before = trail_.size();
  if (!Visit(pattern->op, call->op)) return VisitRotated(pattern, call, expr);
  if (pattern->any_args || VisitAll(pattern->args, call->args)) return true;
  Undo(before);
  const bool commutes =
      pattern->args.size() == 2 && (IsPatternOf(pattern->op, "add") || IsPatternOf(pattern->op, "multiply"));
  return commutes && Visit(pattern->op, call->op) && VisitAll(pattern->args, call->args, /*swapped=*/true);
}

/// a * b / c is found as (a / c) * b or a * (b / c), and the other way round.
bool PatternMatcher::VisitRotated(const CallPatternNode* pattern, const CallNode* call, const Expr& expr) {
  if (pattern->args.size() != 2 || call->args.size() != 2) return false;
  const bool divides = IsPatternOf(pattern->op, "divide") && IsCallOfOp(expr, "multiply") &&
                       (IsCallOfOp(call->args[0], "divide") || IsCallOfOp(call->args[1], "divide"));
  const bool multiplies = IsPatternOf(pattern->op, "multiply") && IsCallOfOp(expr, "divide") &&
                          (IsCallOfOp(call->args[0], "multiply") || IsCallOfOp(call->args[1], "multiply"));
  if (!divides && !multiplies) return false;
  auto [it, fresh] = rotations_.try_emplace(pattern);
  if (fresh && divides) {
    const auto* product = pattern->args[0].as<CallPatternNode>();
    if (product != nullptr && IsPatternOf(product->op, "multiply") && product->args.size() == 2) {
      for (size_t i = 0; i < 2; ++i) {
        it->second.push_back(product->op({product->args[1 - i], pattern->op({product->args[i], pattern->args[1]})}));
      }
    }
  } else if (fresh) {
    for (size_t i = 0; i < 2; ++i) {
      const auto* quotient = pattern->args[i].as<CallPatternNode>();
      if (quotient == nullptr || !IsPatternOf(quotient->op, "divide") || quotient->args.size() != 2) continue;
      it->second.push_back(quotient->op({pattern->op({quotient->args[0], pattern->args[1 - i]}), quotient->args[1]}));
    }
  }
  const std::vector<DFPattern> rotations = it->second;
  for (const DFPattern& rotated : rotations) {
    const size_t before = trail_.size();
    if (Visit(rotated, expr)) return true;
    Undo(before);
  }
  return false;
}

bool PatternMatcher::VisitFunction(const FunctionPatternNode* pattern, const Expr& expr) {
  const auto* func = expr.as<FunctionNode>();
  if (func == nullptr) return false;
  Array<Expr> params;
  for (const Var& param : func->params) params.push_back(param);
  return (pattern->any_params || VisitAll(pattern->params, params)) && Visit(pattern->body, func->body);
}

bool PatternMatcher::VisitAttr(const AttrPatternNode* pattern, const Expr& expr) {
  for (const auto& [name, value] : pattern->attrs) {
    bool equal = false;
    if (const auto* op = expr.as<OpNode>()) {
      auto it = op->attr_map.find(name.str());
      equal = it != op->attr_map.end() && PropertyEquals(it->second, value);
    } else if (const auto* func = expr.as<FunctionNode>()) {
      auto own = func->attrs->dict.Get(name);
      equal = own && ValuesEqual(*own, value);
    } else if (const auto* call = expr.as<CallNode>()) {
      if (!call->attrs.defined()) return false;
      for (const FieldInfo& field : call->attrs->type_info()->fields) {
        if (field.name == name.str()) equal = FieldEquals(field, call->attrs.get(), value);
      }
      if (const auto* dict = call->attrs.as<DictAttrsNode>()) {
        auto own = dict->dict.Get(name);
        equal = own && ValuesEqual(*own, value);
      }
    }
    if (!equal) return false;
  }
  return true;
}

bool PatternMatcher::VisitDominator(const DominatorPatternNode* pattern, const Expr& expr) {
  if (!Visit(pattern->child, expr)) return false;
  std::unordered_set<const Object*> region = {expr.get()};
  std::vector<Expr> stack;
  auto push_inputs = [&](const Expr& e) {
    std::vector<Expr> inputs;
    CollectChildren(e, &inputs);
    if (e.as<CallNode>()) inputs.erase(inputs.begin());
    stack.insert(stack.end(), inputs.rbegin(), inputs.rend());
    return !inputs.empty();
  };
  if (!push_inputs(expr)) return false;
  Expr parent;
  const bool outer = on_path_;
  while (!stack.empty()) {
    const Expr current = stack.back();
    stack.pop_back();
    if ((parent.defined() && current.same_as(parent)) || region.count(current.get()) != 0) continue;
    if (!parent.defined() && Visit(pattern->parent, current)) {
      parent = current;
      continue;
    }
    on_path_ = true;
    const bool passes = Visit(pattern->path, current);
    on_path_ = outer;
    if (!passes || !push_inputs(current)) return false;
    region.insert(current.get());
  }
  if (!parent.defined()) return false;
  auto ends_here = [&](const Object* node) {
    const auto& users = graph_->UsersOf(node);
    return std::all_of(users.begin(), users.end(), [&](const Object* user) { return region.count(user) != 0; });
  };
  for (const Object* node : region) {
    if (node != expr.get() && !ends_here(node)) return false;
  }
  return ends_here(parent.get());
}

Type PatternMatcher::TypeOf(const Expr& expr) const {
  if (expr->checked_type_.defined()) return expr->checked_type_;
  if (expr.as<OpNode>() || expr.as<ConstructorNode>()) return Type();
  try {
    return InferTypeOf(expr, module_);
  } catch (const TypeInferError&) {
    return Type();  // has no type on its own
  }
}

bool MatchPattern(const DFPattern& pattern, const Expr& expr, DFMatch* match) {
  if (!pattern.defined() || !expr.defined()) throw Error("matching takes a pattern and an expression");
  UseGraph graph(expr);
  PatternMatcher matcher(pattern, &graph);
  if (!matcher.Match(expr)) return false;
  if (match != nullptr) *match = matcher.match();
  return true;
}

}  // namespace treadle::relay
