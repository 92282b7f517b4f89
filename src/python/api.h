// SPDX-License-Identifier: Apache-2.0
// The compiler's API as registered functions, under the names of the original: what python/treadle calls.
#pragma once

#include "treadle/ir/attrs.h"
#include "treadle/ir/expr.h"
#include "treadle/runtime/registry.h"
#include "treadle/te/schedule.h"
#include "treadle/tir/schedule.h"

namespace treadle::runtime {

/// Python numbers where scalar expressions are expected: int32 (int64 where it doesn't fit) and float32 constants.
template <>
struct ArgConverter<PrimExpr> {
  static PrimExpr From(const ArgValue& value);
};

/// What C++ takes for granted, Python doesn't: these are never null.
template <typename T>
struct RequiredArg {
  static T From(const ArgValue& value) {
    ObjectRef object = value.AsObjectRef();
    if (!object.defined() || !object->IsInstance<typename T::ContainerType>()) {
      value.ThrowMismatch(T::ContainerType::kTypeKey);
    }
    return T(object.data());
  }
};
#define TREADLE_REQUIRED_ARG(type) \
  template <>                      \
  struct ArgConverter<type> : RequiredArg<type> {};
TREADLE_REQUIRED_ARG(te::Tensor)
TREADLE_REQUIRED_ARG(te::Operation)
TREADLE_REQUIRED_ARG(te::Stage)
TREADLE_REQUIRED_ARG(te::TeSchedule)
TREADLE_REQUIRED_ARG(tir::IterVar)
TREADLE_REQUIRED_ARG(tir::Var)
TREADLE_REQUIRED_ARG(tir::Range)
TREADLE_REQUIRED_ARG(tir::CommReducer)
TREADLE_REQUIRED_ARG(tir::Buffer)
TREADLE_REQUIRED_ARG(tir::PrimFunc)
TREADLE_REQUIRED_ARG(tir::Block)
TREADLE_REQUIRED_ARG(tir::BlockRV)
TREADLE_REQUIRED_ARG(tir::LoopRV)
TREADLE_REQUIRED_ARG(tir::TensorIntrin)
TREADLE_REQUIRED_ARG(IRModule)
#undef TREADLE_REQUIRED_ARG

namespace detail {
[[noreturn]] void ThrowElement(const ArgValue& value, const std::string& where, const char* expected,
                               const ObjectRef& got);
/// Null passes: some lists and maps have it. Scalars are always there.
template <typename T>
void CheckElement(const ArgValue& value, const std::string& where, const ObjectRef& item) {
  using Node = typename T::ContainerType;
  if (item.defined() ? !item->IsInstance<Node>() : std::is_base_of_v<PrimExpr, T> || std::is_base_of_v<te::Tensor, T>) {
    ThrowElement(value, where, Node::kTypeKey, item);
  }
}
}  // namespace detail

/// Lists and maps whose elements are of the type that the function takes.
template <typename T>
struct ArgConverter<Array<T>> {
  static Array<T> From(const ArgValue& value) {
    ObjectRef object = value.AsObjectRef();
    if (!object.defined()) return Array<T>(ObjectPtr<Object>());
    const auto* array = object.as<ArrayNode>();
    if (array == nullptr) value.ThrowMismatch("a list");
    for (size_t i = 0; i < array->items.size(); ++i) {
      detail::CheckElement<T>(value, StrCat("element ", i), array->items[i]);
    }
    return Array<T>(object.data());
  }
};
template <typename K, typename V>
struct ArgConverter<Map<K, V>> {
  static Map<K, V> From(const ArgValue& value) {
    ObjectRef object = value.AsObjectRef();
    if (!object.defined()) return Map<K, V>(ObjectPtr<Object>());
    const auto* map = object.as<MapNode>();
    if (map == nullptr) value.ThrowMismatch("a dict");
    for (const auto& [key, item] : map->items) {
      detail::CheckElement<K>(value, "a key", key);
      detail::CheckElement<V>(value, "a value", item);
    }
    return Map<K, V>(object.data());
  }
};

}  // namespace treadle::runtime

namespace treadle::python {

/// Registers all of it. Once per process.
void RegisterApi();

void RegisterIrApi();
void RegisterOpAttrsApi();
void RegisterTransformApi();
void RegisterRelayApi();
void RegisterTextApi();
void RegisterPassesApi();
void RegisterFrontendApi();
void RegisterTeApi();
void RegisterTirApi();
void RegisterDriverApi();
void RegisterExternalApi();
void RegisterInterpreterApi();
void RegisterDataflowApi();

/// A node of class `type` (one of attributes) with the given fields set and the others at their defaults. Throws
/// Error for unknown or missing fields, for values of the wrong kind and those out of range.
Attrs MakeAttrsFromMap(const TypeInfo* type, const Map<String, ObjectRef>& values, const std::string& what);

}  // namespace treadle::python
