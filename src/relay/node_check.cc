// SPDX-License-Identifier: Apache-2.0
#include "relay/node_check.h"

#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "treadle/ir/prim_expr.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {
namespace {

/// What a field may hold.
struct FieldRule {
  const TypeInfo* cls;
  bool nullable = false;
  const TypeInfo* element = nullptr;  ///< of an Array, or of the values of a Map; null: anything
  const TypeInfo* key = nullptr;      ///< of a Map
};

template <typename Node>
const TypeInfo* Cls() {
  return Node::StaticTypeInfo();
}
template <typename Node>
FieldRule One() {
  return {Cls<Node>()};
}
template <typename Node>
FieldRule Maybe() {
  return {Cls<Node>(), true};
}
template <typename Node>
FieldRule Many() {
  return {Cls<ArrayNode>(), false, Cls<Node>()};
}
template <typename Key, typename Value>
FieldRule Mapping() {
  return {Cls<MapNode>(), false, Cls<Value>(), Cls<Key>()};
}

using Rules = std::map<std::pair<std::string, std::string>, FieldRule>;

Rules ExprRules() {
  const FieldRule expr = One<RelayExprNode>();
  const FieldRule patterns = Many<PatternNode>();
  return {
      {{"relay.Constant", "data"}, One<NDArrayNode>()},
      {{"relay.Tuple", "fields"}, Many<RelayExprNode>()},
      {{"relay.Var", "vid"}, One<IdNode>()},
      {{"relay.Var", "type_annotation"}, Maybe<TypeNode>()},
      {{"relay.Call", "op"}, expr},
      {{"relay.Call", "args"}, Many<RelayExprNode>()},
      {{"relay.Call", "attrs"}, Maybe<AttrsNode>()},
      {{"relay.Call", "type_args"}, Many<TypeNode>()},
      {{"relay.Let", "var"}, One<VarNode>()},
      {{"relay.Let", "value"}, expr},
      {{"relay.Let", "body"}, expr},
      {{"relay.If", "cond"}, expr},
      {{"relay.If", "true_branch"}, expr},
      {{"relay.If", "false_branch"}, expr},
      {{"relay.TupleGetItem", "tuple_value"}, expr},
      {{"relay.RefCreate", "value"}, expr},
      {{"relay.RefRead", "ref"}, expr},
      {{"relay.RefWrite", "ref"}, expr},
      {{"relay.RefWrite", "value"}, expr},
      {{"relay.PatternVar", "var"}, One<VarNode>()},
      {{"relay.PatternConstructor", "constructor"}, One<ConstructorNode>()},
      {{"relay.PatternConstructor", "patterns"}, patterns},
      {{"relay.PatternTuple", "patterns"}, patterns},
      {{"relay.Clause", "lhs"}, One<PatternNode>()},
      {{"relay.Clause", "rhs"}, expr},
      {{"relay.Match", "data"}, expr},
      {{"relay.Match", "clauses"}, Many<ClauseNode>()},
      {{"relay.Function", "type_params"}, Many<TypeVarNode>()},
      {{"relay.Function", "params"}, Many<VarNode>()},
      {{"relay.Function", "ret_type"}, Maybe<TypeNode>()},
      {{"relay.Function", "body"}, expr},
      {{"relay.Function", "attrs"}, One<DictAttrsNode>()},
      {{"relay.Constructor", "inputs"}, Many<TypeNode>()},
      {{"relay.Constructor", "belong_to"}, One<GlobalTypeVarNode>()},
      {{"DictAttrs", "dict"}, {Cls<MapNode>(), false, nullptr, Cls<StringNode>()}},
  };
}

Rules TypeAndModuleRules() {
  return {
      {{"PointerType", "element_type"}, One<TypeNode>()},
      {{"relay.TensorType", "shape"}, Many<PrimExprNode>()},
      {{"TupleType", "fields"}, Many<TypeNode>()},
      {{"FuncType", "type_params"}, Many<TypeVarNode>()},
      {{"FuncType", "arg_types"}, Many<TypeNode>()},
      {{"FuncType", "ret_type"}, One<TypeNode>()},
      {{"FuncType", "type_constraints"}, Many<TypeConstraintNode>()},
      {{"relay.TypeRelation", "args"}, Many<TypeNode>()},
      {{"relay.TypeRelation", "attrs"}, Maybe<AttrsNode>()},
      {{"relay.TypeCall", "func"}, One<TypeNode>()},
      {{"relay.TypeCall", "args"}, Many<TypeNode>()},
      {{"relay.RefType", "value"}, One<TypeNode>()},
      {{"relay.TypeData", "header"}, One<GlobalTypeVarNode>()},
      {{"relay.TypeData", "type_vars"}, Many<TypeVarNode>()},
      {{"relay.TypeData", "constructors"}, Many<ConstructorNode>()},
      {{"IRModule", "functions"}, Mapping<GlobalVarNode, FunctionNode>()},
      {{"IRModule", "type_definitions"}, Mapping<GlobalTypeVarNode, TypeDataNode>()},
      {{"IRModule", "source_map"}, Mapping<StringNode, StringNode>()},
      {{"IRModule", "attrs"}, One<DictAttrsNode>()},
      {{"IRModule", "global_vars"}, Mapping<StringNode, GlobalVarNode>()},
      {{"IRModule", "global_type_vars"}, Mapping<StringNode, GlobalTypeVarNode>()},
  };
}

const Rules& AllRules() {
  static const Rules rules = [] {
    Rules all = ExprRules();
    all.merge(TypeAndModuleRules());
    return all;
  }();
  return rules;
}

bool Is(const ObjectRef& value, const TypeInfo* cls) { return value.defined() && value->type_info()->IsA(cls); }

/// Classes without rules for their fields of their own.
bool IsKnownClass(const Object* node) {
  static const std::unordered_set<std::string> kLeaves = {"runtime.String",
                                                          "runtime.Array",
                                                          "runtime.Map",
                                                          "runtime.NDArray",
                                                          "Span",
                                                          "ModelSpan",
                                                          "Op",
                                                          "relay.Id",
                                                          "relay.TypeVar",
                                                          "relay.GlobalTypeVar",
                                                          "IncompleteType",
                                                          "PrimType",
                                                          "GlobalVar",
                                                          "relay.PatternWildcard"};
  if (kLeaves.count(node->type_key()) != 0 || node->IsInstance<AttrsNode>() || node->IsInstance<PrimExprNode>()) {
    return true;
  }
  for (const auto& [field, rule] : AllRules()) {
    if (field.first == node->type_key()) return true;
  }
  return false;
}

[[noreturn]] void Fail(const Object* node, const std::string& field, const std::string& expected) {
  throw ModelFormatError(StrCat("JSON of nodes: ", node->type_key(), ".", field, " isn't ", expected));
}

void CheckRule(const Object* node, const FieldInfo& field, const FieldRule& rule, const ObjectRef& value) {
  if (!value.defined() && rule.nullable) return;
  if (!Is(value, rule.cls)) Fail(node, field.name, "of class " + rule.cls->key);
  if (const auto* array = value.as<ArrayNode>()) {
    for (const ObjectRef& item : array->items) {
      if (rule.element != nullptr && !Is(item, rule.element)) Fail(node, field.name, "a list of " + rule.element->key);
    }
  }
  if (const auto* map = value.as<MapNode>()) {
    for (const auto& [key, item] : map->items) {
      if (rule.key != nullptr && !Is(key, rule.key)) Fail(node, field.name, "a map from " + rule.key->key);
      if (rule.element != nullptr && !Is(item, rule.element)) Fail(node, field.name, "a map to " + rule.element->key);
    }
  }
}

/// Attributes of operators hold numbers, texts, and lists of numbers; those that list pairs hold lists of lists.
void CheckAttr(const Object* node, const FieldInfo& field, const ObjectRef& value) {
  const auto* array = value.as<ArrayNode>();
  if (array == nullptr) {
    const bool good = !value.defined() || Is(value, Cls<PrimExprNode>()) || Is(value, Cls<StringNode>());
    if (!good) Fail(node, field.name, "a number, a text or a list");
    return;
  }
  const bool nested = field.name == "pad_width" || field.name == "paddings" || field.name == "crops";
  for (const ObjectRef& item : array->items) {
    const auto* inner = item.as<ArrayNode>();
    bool good = nested ? inner != nullptr : Is(item, Cls<PrimExprNode>());
    for (size_t i = 0; good && nested && i < inner->items.size(); ++i) good = Is(inner->items[i], Cls<PrimExprNode>());
    if (!good) Fail(node, field.name, nested ? "a list of lists of numbers" : "a list of numbers");
  }
}

void CheckField(const Object* node, const FieldInfo& field, const ObjectRef& value) {
  if (field.name == "span") return CheckRule(node, field, Maybe<SpanNode>(), value);
  if (field.name == "_checked_type_") return CheckRule(node, field, Maybe<TypeNode>(), value);
  if (node->IsInstance<PrimExprNode>()) {
    if (field.name == "type_annotation") return CheckRule(node, field, Maybe<TypeNode>(), value);
    return CheckRule(node, field, One<PrimExprNode>(), value);
  }
  auto rule = AllRules().find({node->type_key(), field.name});
  if (rule != AllRules().end()) return CheckRule(node, field, rule->second, value);
  if (node->IsInstance<AttrsNode>()) return CheckAttr(node, field, value);
  Fail(node, field.name, "known");
}

void CheckCall(const CallNode* call) {
  const auto* op = call->op.as<OpNode>();
  if (op == nullptr || !call->attrs.defined() || op->attrs_type == nullptr) return;
  if (!call->attrs->type_info()->IsA(op->attrs_type)) {
    throw ModelFormatError(StrCat("JSON of nodes: operator ", op->name, " has attributes of class ",
                                  call->attrs->type_key(), ", not ", op->attrs_type->key));
  }
}

}  // namespace

void CheckNodes(const ObjectRef& root) {
  std::vector<ObjectRef> stack = {root};
  std::unordered_set<const Object*> seen;
  while (!stack.empty()) {
    const ObjectRef node = stack.back();
    stack.pop_back();
    if (!node.defined() || !seen.insert(node.get()).second) continue;
    if (!IsKnownClass(node.get())) {
      throw ModelFormatError(StrCat("JSON of nodes: nodes of class ", node->type_key(), " can't be read"));
    }
    if (const auto* array = node.as<ArrayNode>()) {
      stack.insert(stack.end(), array->items.begin(), array->items.end());
      continue;
    }
    if (const auto* map = node.as<MapNode>()) {
      for (const auto& [key, value] : map->items) stack.insert(stack.end(), {key, value});
      continue;
    }
    if (node.as<NDArrayNode>() || node.as<OpNode>()) continue;
    for (const FieldInfo& field : node->type_info()->fields) {
      if (field.kind != FieldKind::kObject) continue;
      const ObjectRef& value = field.Get<ObjectRef>(node.get());
      CheckField(node.get(), field, value);
      stack.push_back(value);
    }
    if (const auto* call = node.as<CallNode>()) CheckCall(call);
  }
}

bool MustBeGiven(const FieldInfo& field, const std::string& owner) {
  // What the static twin takes as attribute is an operand of dyn.* operators.
  if (owner.compare(0, 4, "dyn.") == 0) return false;
  // Optional fields may be marked as required so that they are always printed, as TVM does.
  return field.required && field.kind != FieldKind::kOptInt64 && field.kind != FieldKind::kOptDouble &&
         field.kind != FieldKind::kOptInt64s;
}

Attrs DefaultAttrs(const OpNode* op) {
  if (op->attrs_type == nullptr || op->attrs_type->create == nullptr) return Attrs();
  return Attrs(ObjectPtr<Object>(op->attrs_type->create()));
}

}  // namespace treadle::relay
