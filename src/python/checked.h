// SPDX-License-Identifier: Apache-2.0
// Functions whose arguments are looked at before they are taken: what C++ takes for granted, Python doesn't.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "python/api.h"
#include "treadle/ir/module.h"
#include "treadle/te/schedule.h"
#include "treadle/tir/schedule.h"

namespace treadle::python {

/// Types of which there is no null.
template <typename T>
inline constexpr bool kRequired =
    std::is_same_v<T, te::Tensor> || std::is_same_v<T, te::Operation> || std::is_same_v<T, te::Stage> ||
    std::is_same_v<T, te::TeSchedule> || std::is_base_of_v<PrimExpr, T> || std::is_same_v<T, tir::Range> ||
    std::is_same_v<T, tir::CommReducer> || std::is_same_v<T, tir::Buffer> || std::is_same_v<T, tir::PrimFunc> ||
    std::is_same_v<T, tir::BlockRV> || std::is_same_v<T, tir::LoopRV> || std::is_same_v<T, tir::TensorIntrin> ||
    std::is_same_v<T, IRModule>;

template <typename T>
struct ElementsOf {
  static void Check(const runtime::ArgValue& value) {
    if constexpr (std::is_base_of_v<ObjectRef, T>) {
      if (kRequired<T> && value.is_null()) value.ThrowMismatch(T::ContainerType::kTypeKey);
    }
  }
};

/// Null passes where the type has it: some lists and maps hold it.
template <typename T>
void CheckElement(const runtime::ArgValue& value, const std::string& where, const ObjectRef& item) {
  using Node = typename T::ContainerType;
  if (item.defined() ? item->IsInstance<Node>() : !kRequired<T>) return;
  throw DTypeError(StrCat("argument ", value.index(), ", ", where, ": expected ", Node::kTypeKey, " but got ",
                          item.defined() ? item->type_key() : "null"));
}
template <typename T>
struct ElementsOf<Array<T>> {
  static void Check(const runtime::ArgValue& value) {
    const ObjectRef object = value.AsObjectRef();
    const auto* array = object.as<ArrayNode>();
    if (array == nullptr) value.ThrowMismatch("a list");
    for (size_t i = 0; i < array->items.size(); ++i) CheckElement<T>(value, StrCat("element ", i), array->items[i]);
  }
};
template <typename K, typename V>
struct ElementsOf<Map<K, V>> {
  static void Check(const runtime::ArgValue& value) {
    const ObjectRef object = value.AsObjectRef();
    const auto* map = object.as<MapNode>();
    if (map == nullptr) value.ThrowMismatch("a dict");
    for (const auto& [key, item] : map->items) {
      CheckElement<K>(value, "a key", key);
      CheckElement<V>(value, "a value", item);
    }
  }
};

template <typename F, typename R, typename... A, size_t... I>
runtime::PackedFunc CheckedAs(F function, R (*)(A...), std::index_sequence<I...>) {
  runtime::PackedFunc inner = runtime::PackedFunc::FromTyped(std::move(function));
  return runtime::PackedFunc([inner](runtime::Args args, runtime::RetValue* ret) {
    if (args.size() == static_cast<int>(sizeof...(A))) {
      (ElementsOf<runtime::detail::Bare<A>>::Check(args[static_cast<int>(I)]), ...);
    }
    inner.CallPacked(args, ret);
  });
}
template <typename F, typename R, typename... A>
runtime::PackedFunc CheckedAs(F function, R (*signature)(A...)) {
  return CheckedAs(std::move(function), signature, std::index_sequence_for<A...>());
}

/// As Registry::RegisterTyped; also lists and maps hold what they should, and nothing is null that can't be.
template <typename F>
void RegisterChecked(const std::string& name, F function) {
  using Signature = typename runtime::detail::Signature<F>::Type;
  runtime::Registry::Register(name, CheckedAs(std::move(function), static_cast<Signature*>(nullptr)));
}

}  // namespace treadle::python
