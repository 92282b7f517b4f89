// SPDX-License-Identifier: Apache-2.0
// Functions whose arguments are looked at before they are taken: what C++ takes for granted, Python doesn't.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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

/// What a list, a dict or an argument may hold.
struct ElementRule {
  const TypeInfo* type;
  bool required;
};
template <typename T>
ElementRule RuleOf() {
  return {T::ContainerType::StaticTypeInfo(), kRequired<T>};
}
/// Each throws DTypeError that names the argument and the element. Null passes where the type has it.
void CheckNotNull(const runtime::ArgValue& value, const TypeInfo* type);
void CheckList(const runtime::ArgValue& value, ElementRule element);
void CheckDict(const runtime::ArgValue& value, ElementRule key, ElementRule item);

template <typename T>
struct ElementsOf {
  static void Check(const runtime::ArgValue& value) {
    if constexpr (std::is_base_of_v<ObjectRef, T>) {
      if (kRequired<T>) CheckNotNull(value, T::ContainerType::StaticTypeInfo());
    }
  }
};
template <typename T>
struct ElementsOf<Array<T>> {
  static void Check(const runtime::ArgValue& value) { CheckList(value, RuleOf<T>()); }
};
template <typename K, typename V>
struct ElementsOf<Map<K, V>> {
  static void Check(const runtime::ArgValue& value) { CheckDict(value, RuleOf<K>(), RuleOf<V>()); }
};

using ArgumentCheck = void (*)(const runtime::ArgValue&);
/// `function` behind checks of its arguments, one for each.
runtime::PackedFunc CheckedFunction(runtime::PackedFunc function, std::vector<ArgumentCheck> checks);

template <typename F, typename R, typename... A>
runtime::PackedFunc CheckedAs(F function, R (*)(A...)) {
  return CheckedFunction(runtime::PackedFunc::FromTyped(std::move(function)),
                         {&ElementsOf<runtime::detail::Bare<A>>::Check...});
}

/// As Registry::RegisterTyped; also lists and maps hold what they should, and nothing is null that can't be.
template <typename F>
void RegisterChecked(const std::string& name, F function) {
  using Signature = typename runtime::detail::Signature<F>::Type;
  runtime::Registry::Register(name, CheckedAs(std::move(function), static_cast<Signature*>(nullptr)));
}

}  // namespace treadle::python
