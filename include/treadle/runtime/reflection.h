// SPDX-License-Identifier: Apache-2.0
// Reflected fields: a node lists its fields once, and structural equality and hashing, JSON, printing of
// attributes, Python access and default visiting derive from that list.
//
//   class CallNode : public ExprNode {
//    public:
//     Expr op;
//     Array<Expr> args;
//     TREADLE_DECLARE_NODE(CallNode, ExprNode, "relay.Call");
//     template <typename R> static void Reflect(R& r) {
//       r.Field("op", &CallNode::op).Doc("the callee");
//       r.Field("args", &CallNode::args);
//     }
//   };
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "treadle/runtime/data_type.h"
#include "treadle/runtime/object.h"

namespace treadle {

/// C++ types that a reflected field can have.
enum class FieldKind : uint8_t {
  kBool,
  kInt32,  ///< int or an enum whose underlying type is int
  kInt64,
  kDouble,
  kString,
  kDataType,
  kObject,     ///< any reference class: nodes, Array, Map, NDArray
  kInt64s,     ///< std::vector<int64_t>
  kDoubles,    ///< std::vector<double>
  kStrings,    ///< std::vector<std::string>
  kOptInt64,   ///< std::optional<int64_t>
  kOptDouble,  ///< std::optional<double>
  kOptInt64s,  ///< std::optional<std::vector<int64_t>>
};

/// How structural equality and hashing treat a field.
enum class FieldRole : uint8_t {
  kUse,     ///< compared
  kDefine,  ///< compared, and variables met inside are bound: those of one side map to those of the other
  kIgnore,  ///< not compared: spans, cached types, name hints
};

struct FieldInfo {
  std::string name;
  FieldKind kind;
  FieldRole role = FieldRole::kUse;
  size_t offset = 0;  ///< bytes from the start of the node (as Object*)
  std::string doc;
  bool required = false;               ///< of attributes: has no default
  std::optional<double> lower, upper;  ///< of numeric attributes: allowed range, inclusive

  template <typename T>
  const T& Get(const Object* object) const {
    return *reinterpret_cast<const T*>(reinterpret_cast<const char*>(object) + offset);
  }
  template <typename T>
  T& GetMutable(Object* object) const {
    return *reinterpret_cast<T*>(reinterpret_cast<char*>(object) + offset);
  }
};

namespace detail {
template <typename T>
constexpr FieldKind KindOf() {
  if constexpr (std::is_same_v<T, bool>)
    return FieldKind::kBool;
  else if constexpr (std::is_enum_v<T>) {
    static_assert(sizeof(T) == sizeof(int), "an enum of another size isn't reflectable");
    return FieldKind::kInt32;
  } else if constexpr (std::is_same_v<T, int>)
    return FieldKind::kInt32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return FieldKind::kInt64;
  else if constexpr (std::is_same_v<T, double>)
    return FieldKind::kDouble;
  else if constexpr (std::is_same_v<T, std::string>)
    return FieldKind::kString;
  else if constexpr (std::is_same_v<T, DataType>)
    return FieldKind::kDataType;
  else if constexpr (std::is_base_of_v<ObjectRef, T>)
    return FieldKind::kObject;
  else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
    return FieldKind::kInt64s;
  else if constexpr (std::is_same_v<T, std::vector<double>>)
    return FieldKind::kDoubles;
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return FieldKind::kStrings;
  else if constexpr (std::is_same_v<T, std::optional<int64_t>>)
    return FieldKind::kOptInt64;
  else if constexpr (std::is_same_v<T, std::optional<double>>)
    return FieldKind::kOptDouble;
  else {
    static_assert(std::is_same_v<T, std::optional<std::vector<int64_t>>>, "type of field isn't reflectable");
    return FieldKind::kOptInt64s;
  }
}
}  // namespace detail

/// Refines the field that was just declared.
class FieldBuilder {
 public:
  explicit FieldBuilder(FieldInfo* info) : info_(info) {}
  FieldBuilder& Doc(std::string_view text);
  FieldBuilder& Defines();
  FieldBuilder& Ignored();
  FieldBuilder& Required();
  FieldBuilder& Range(double lower, double upper);
  FieldBuilder& AtLeast(double lower);

 private:
  FieldInfo* info_;
};

/// Collects the fields of one node class.
class Reflector {
 public:
  template <typename Class, typename Member>
  FieldBuilder Field(std::string_view name, Member Class::* member) {
    static_assert(std::is_base_of_v<Object, Class>);
    alignas(Class) static char storage[sizeof(Class)];
    const auto* node = reinterpret_cast<const Class*>(storage);
    return Add(name, detail::KindOf<Member>(),
               static_cast<size_t>(reinterpret_cast<const char*>(&(node->*member)) -
                                   reinterpret_cast<const char*>(static_cast<const Object*>(node))));
  }
  std::vector<FieldInfo> fields;

 private:
  FieldBuilder Add(std::string_view name, FieldKind kind, size_t offset);
};

/// Calls `visit(field, value)` with the value of `field` in `object` at its C++ type.
template <typename Visit>
decltype(auto) VisitField(const FieldInfo& field, const Object* object, Visit&& visit) {
  switch (field.kind) {
    case FieldKind::kBool:
      return visit(field.Get<bool>(object));
    case FieldKind::kInt32:
      return visit(field.Get<int>(object));
    case FieldKind::kInt64:
      return visit(field.Get<int64_t>(object));
    case FieldKind::kDouble:
      return visit(field.Get<double>(object));
    case FieldKind::kString:
      return visit(field.Get<std::string>(object));
    case FieldKind::kDataType:
      return visit(field.Get<DataType>(object));
    case FieldKind::kObject:
      return visit(field.Get<ObjectRef>(object));
    case FieldKind::kInt64s:
      return visit(field.Get<std::vector<int64_t>>(object));
    case FieldKind::kDoubles:
      return visit(field.Get<std::vector<double>>(object));
    case FieldKind::kStrings:
      return visit(field.Get<std::vector<std::string>>(object));
    case FieldKind::kOptInt64:
      return visit(field.Get<std::optional<int64_t>>(object));
    case FieldKind::kOptDouble:
      return visit(field.Get<std::optional<double>>(object));
    case FieldKind::kOptInt64s:
      break;
  }
  return visit(field.Get<std::optional<std::vector<int64_t>>>(object));
}

namespace detail {
template <typename Node>
concept Reflected = requires(Reflector& r) { Node::Reflect(r); };

/// Whether the class has a Reflect of its own, rather than its parent's.
template <typename Node>
constexpr bool HasOwnReflect() {
  if constexpr (Reflected<Node> && Reflected<typename Node::ParentNode>) {
    return &Node::template Reflect<Reflector> != &Node::ParentNode::template Reflect<Reflector>;
  } else {
    return Reflected<Node>;
  }
}

template <typename Node>
Object* CreateNode() {
  return NewObject<Node>();
}
}  // namespace detail

/// Registers a node class with its own fields (not the inherited ones). Called once per class, by TREADLE_NODE or
/// TREADLE_DEFINE_NODE.
template <typename Node>
const TypeInfo* RegisterNodeType() {
  Reflector own;
  if constexpr (detail::HasOwnReflect<Node>()) Node::Reflect(own);
  Object* (*create)() = nullptr;
  if constexpr (std::is_default_constructible_v<Node> && !std::is_abstract_v<Node>) create = &detail::CreateNode<Node>;
  return TypeInfo::Register(Node::kTypeKey, Node::ParentNode::StaticTypeInfo(), std::move(own.fields), create);
}

}  // namespace treadle
