// SPDX-License-Identifier: Apache-2.0
#include "python/checked.h"

#include "treadle/tir/function.h"

namespace treadle::python {
namespace {

const char* NameOf(const TypeInfo* type) {
  if (type == ArrayNode::StaticTypeInfo()) return "a list";
  return type == MapNode::StaticTypeInfo() ? "a dict" : type->key.c_str();
}

std::string Within(const std::string& where, const std::string& part) {
  return where.empty() ? part : where + ", " + part;
}

bool IsKind(const ObjectRef& object, const ValueRule& rule) {
  const TypeInfo* type = object->type_info();
  return type->IsA(rule.type) && (rule.other == nullptr || !type->IsA(rule.other));
}

/// Checks `object` and what it holds; `where` is the path to it.
void CheckAt(const std::string& where, const ValueRule& rule, const ObjectRef& object) {
  if (object.defined() ? !IsKind(object, rule) : rule.required) {
    throw DTypeError(StrCat(where, where.empty() ? "" : ": ", "expected ", NameOf(rule.type), " but got ",
                            object.defined() ? object->type_key() : "null"));
  }
  if (rule.item == nullptr) return;
  if (const auto* array = object.as<ArrayNode>()) {
    for (size_t i = 0; i < array->items.size(); ++i) {
      CheckAt(Within(where, StrCat("element ", i)), *rule.item, array->items[i]);
    }
  } else if (const auto* map = object.as<MapNode>()) {
    for (const auto& [key, value] : map->items) {
      if (rule.key != nullptr) CheckAt(Within(where, "a key"), *rule.key, key);
      CheckAt(Within(where, "a value"), *rule.item, value);
    }
  }
}

/// The type of a value that is no container is left to the conversion: it takes numbers for scalar expressions.
void CheckArgument(const runtime::ArgValue& value, const ValueRule& rule) {
  if (value.is_null() && rule.required) value.ThrowMismatch(NameOf(rule.type));
  const bool number = value.type_code() == kTreadleInt || value.type_code() == kTreadleFloat;
  if (number && !PrimExprNode::StaticTypeInfo()->IsA(rule.type) && !rule.type->IsA(PrimExprNode::StaticTypeInfo())) {
    value.ThrowMismatch(NameOf(rule.type));
  }
  if (rule.item != nullptr || rule.other != nullptr) {
    CheckAt(StrCat("argument ", value.index()), rule, value.AsObjectRef());
  }
}

}  // namespace

const ValueRule* RuleOf<RelayExpr>::Get() {
  static const ValueRule rule{RelayExprNode::StaticTypeInfo(), true, nullptr, nullptr,
                              tir::PrimFuncNode::StaticTypeInfo()};
  return &rule;
}

void CheckValue(const ValueRule& rule, const ObjectRef& value) { CheckAt("", rule, value); }

runtime::PackedFunc CheckedFunction(std::string name, runtime::PackedFunc function,
                                    std::vector<const ValueRule*> rules) {
  const auto checked = [name = std::move(name), function = std::move(function), rules = std::move(rules)](
                           runtime::Args args, runtime::RetValue* ret) {
    try {
      if (args.size() == static_cast<int>(rules.size())) {
        for (size_t i = 0; i < rules.size(); ++i) {
          if (rules[i] != nullptr) CheckArgument(args[static_cast<int>(i)], *rules[i]);
        }
      }
      function.CallPacked(args, ret);
    } catch (const DTypeError& error) {
      if (std::string_view(error.what()).substr(0, 9) != "argument ") throw;
      throw DTypeError(StrCat(name, ": ", error.what()));
    }
  };
  return runtime::PackedFunc(checked);
}

}  // namespace treadle::python
