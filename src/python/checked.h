// SPDX-License-Identifier: Apache-2.0
// Functions whose arguments are checked before they are taken: what C++ takes for granted, Python doesn't. All
// functions that Python calls are registered by RegisterChecked.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "python/api.h"
#include "treadle/ir/attrs.h"
#include "treadle/ir/span.h"

namespace treadle::python {

/// A parameter that may be null. All others of a reference type may not, but for ObjectRef (any value), Attrs and Span.
template <typename T>
class OrNull : public T {
 public:
  using T::T;
  OrNull(T value) : T(std::move(value)) {}  // NOLINT(google-explicit-constructor)
};

/// A parameter that may be any value but null.
class AnyValue : public ObjectRef {
 public:
  TREADLE_BASE_REF(AnyValue, ObjectRef, Object);
};

template <typename T>
inline constexpr bool kRequired =
    !std::is_same_v<T, ObjectRef> && !std::is_same_v<T, Attrs> && !std::is_same_v<T, Span>;
template <typename T>
inline constexpr bool kRequired<OrNull<T>> = false;

/// What an argument, an element of a list, or a key or value of a dict may be.
struct ValueRule {
  const TypeInfo* type;
  bool required;
  const ValueRule* key;             ///< of a dict; else null
  const ValueRule* item;            ///< of a list or dict; else null
  const TypeInfo* other = nullptr;  ///< a class derived from `type` that is none
};

/// The rule of parameters of type T; null where any value passes, or where the conversion checks it.
template <typename T>
struct RuleOf {
  static const ValueRule* Get() {
    if constexpr (std::is_base_of_v<ObjectRef, T>) {
      static const ValueRule rule{T::ContainerType::StaticTypeInfo(), kRequired<T>, nullptr, nullptr};
      return &rule;
    } else {
      return nullptr;
    }
  }
};
/// Functions of other IRs are expressions of the graph IR in name only.
template <>
struct RuleOf<RelayExpr> {
  static const ValueRule* Get();
};
template <typename T>
struct RuleOf<Array<T>> {
  static const ValueRule* Get() {
    static const ValueRule rule{ArrayNode::StaticTypeInfo(), true, nullptr, RuleOf<T>::Get()};
    return &rule;
  }
};
template <typename K, typename V>
struct RuleOf<Map<K, V>> {
  static const ValueRule* Get() {
    static const ValueRule rule{MapNode::StaticTypeInfo(), true, RuleOf<K>::Get(), RuleOf<V>::Get()};
    return &rule;
  }
};

/// `function` behind checks of its arguments, one rule for each. A call with an argument that breaks its rule is a
/// DTypeError that names the function, the argument and the element.
runtime::PackedFunc CheckedFunction(std::string name, runtime::PackedFunc function,
                                    std::vector<const ValueRule*> rules);

template <typename F, typename R, typename... A>
runtime::PackedFunc CheckedAs(const std::string& name, F function, R (*)(A...)) {
  return CheckedFunction(name, runtime::PackedFunc::FromTyped(std::move(function)),
                         {RuleOf<runtime::detail::Bare<A>>::Get()...});
}

void CheckValue(const ValueRule& rule, const ObjectRef& value);
/// A value (or null) that has to be a T: a DTypeError if it isn't. What Downcast is to our own mistakes.
template <typename T>
T Expect(const ObjectRef& value) {
  if (value.defined()) CheckValue(*RuleOf<T>::Get(), value);
  return T(value.data());
}

/// As Registry::RegisterTyped; also lists and maps hold what they should, and nothing is null that can't be.
template <typename F>
void RegisterChecked(const std::string& name, F function) {
  using Signature = typename runtime::detail::Signature<F>::Type;
  runtime::Registry::Register(name, CheckedAs(name, std::move(function), static_cast<Signature*>(nullptr)));
}

}  // namespace treadle::python
