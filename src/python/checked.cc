// SPDX-License-Identifier: Apache-2.0
#include "python/checked.h"

namespace treadle::python {
namespace {

const char* NameOf(const TypeInfo* type) {
  if (type == ArrayNode::StaticTypeInfo()) return "a list";
  return type == MapNode::StaticTypeInfo() ? "a dict" : type->key.c_str();
}

/// Checks `object` and what it holds; `where` is the path to it from the argument.
void CheckValue(const runtime::ArgValue& argument, const std::string& where, const ValueRule& rule,
                const ObjectRef& object) {
  if (object.defined() ? !object->type_info()->IsA(rule.type) : rule.required) {
    throw DTypeError(StrCat("argument ", argument.index(), where, ": expected ", NameOf(rule.type), " but got ",
                            object.defined() ? object->type_key() : "null"));
  }
  if (rule.item == nullptr) return;
  if (const auto* array = object.as<ArrayNode>()) {
    for (size_t i = 0; i < array->items.size(); ++i) {
      CheckValue(argument, StrCat(where, ", element ", i), *rule.item, array->items[i]);
    }
  } else if (const auto* map = object.as<MapNode>()) {
    for (const auto& [key, value] : map->items) {
      if (rule.key != nullptr) CheckValue(argument, where + ", a key", *rule.key, key);
      CheckValue(argument, where + ", a value", *rule.item, value);
    }
  }
}

/// The type of a value that is no container is left to the conversion: it takes numbers for scalar expressions.
void CheckArgument(const runtime::ArgValue& value, const ValueRule& rule) {
  if (value.is_null() && rule.required) value.ThrowMismatch(NameOf(rule.type));
  if (rule.item != nullptr) CheckValue(value, "", rule, value.AsObjectRef());
}

}  // namespace

runtime::PackedFunc CheckedFunction(runtime::PackedFunc function, std::vector<const ValueRule*> rules) {
  return runtime::PackedFunc(
      [function = std::move(function), rules = std::move(rules)](runtime::Args args, runtime::RetValue* ret) {
        if (args.size() == static_cast<int>(rules.size())) {
          for (size_t i = 0; i < rules.size(); ++i) {
            if (rules[i] != nullptr) CheckArgument(args[static_cast<int>(i)], *rules[i]);
          }
        }
        function.CallPacked(args, ret);
      });
}

}  // namespace treadle::python
