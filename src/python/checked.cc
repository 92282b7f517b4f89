// SPDX-License-Identifier: Apache-2.0
#include "python/checked.h"

namespace treadle::python {
namespace {

void CheckElement(const runtime::ArgValue& value, const std::string& where, ElementRule rule, const ObjectRef& item) {
  if (item.defined() ? item->type_info()->IsA(rule.type) : !rule.required) return;
  throw DTypeError(StrCat("argument ", value.index(), ", ", where, ": expected ", rule.type->key, " but got ",
                          item.defined() ? item->type_key() : "null"));
}

}  // namespace

void CheckNotNull(const runtime::ArgValue& value, const TypeInfo* type) {
  if (value.is_null()) value.ThrowMismatch(type->key);
}

void CheckList(const runtime::ArgValue& value, ElementRule element) {
  const ObjectRef object = value.AsObjectRef();
  const auto* array = object.as<ArrayNode>();
  if (array == nullptr) value.ThrowMismatch("a list");
  for (size_t i = 0; i < array->items.size(); ++i) {
    CheckElement(value, StrCat("element ", i), element, array->items[i]);
  }
}

void CheckDict(const runtime::ArgValue& value, ElementRule key, ElementRule item) {
  const ObjectRef object = value.AsObjectRef();
  const auto* map = object.as<MapNode>();
  if (map == nullptr) value.ThrowMismatch("a dict");
  for (const auto& [k, v] : map->items) {
    CheckElement(value, "a key", key, k);
    CheckElement(value, "a value", item, v);
  }
}

runtime::PackedFunc CheckedFunction(runtime::PackedFunc function, std::vector<ArgumentCheck> checks) {
  return runtime::PackedFunc(
      [function = std::move(function), checks = std::move(checks)](runtime::Args args, runtime::RetValue* ret) {
        if (args.size() == static_cast<int>(checks.size())) {
          for (size_t i = 0; i < checks.size(); ++i) checks[i](args[static_cast<int>(i)]);
        }
        function.CallPacked(args, ret);
      });
}

}  // namespace treadle::python
