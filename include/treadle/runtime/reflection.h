// SPDX-License-Identifier: Apache-2.0
// Reflected fields: a node lists its fields once, and structural equality and hashing, JSON, printing of
// attributes, Python access and default visiting derive from that list.
//
//   class CallNode : public ExprNode {
//    public:
//     Expr op;
//     Array<Expr> args;
//     TREADLE_NODE(CallNode, ExprNode, "relay.Call")
//     template <typename R> static void Reflect(R& r) {
//       r.Field("op", &CallNode::op).Doc("the callee");
//       r.Field("args", &CallNode::args);
//     }
//   };
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
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
  else if constexpr (std::is_enum_v<T>)
    return FieldKind::kInt32;
  else if constexpr (std::is_same_v<T, int>)
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
  FieldBuilder& Doc(std::string text) {
    info_->doc = std::move(text);
    return *this;
  }
  FieldBuilder& Defines() {
    info_->role = FieldRole::kDefine;
    return *this;
  }
  FieldBuilder& Ignored() {
    info_->role = FieldRole::kIgnore;
    return *this;
  }
  FieldBuilder& Required() {
    info_->required = true;
    return *this;
  }
  FieldBuilder& Range(double lower, double upper) {
    info_->lower = lower;
    info_->upper = upper;
    return *this;
  }
  FieldBuilder& AtLeast(double lower) {
    info_->lower = lower;
    return *this;
  }

 private:
  FieldInfo* info_;
};

/// Collects the fields of one node class.
template <typename Node>
class Reflector {
 public:
  template <typename Class, typename Member>
  FieldBuilder Field(std::string name, Member Class::* member) {
    static_assert(std::is_base_of_v<Class, Node>);
    alignas(Node) static char storage[sizeof(Node)];
    const auto* node = reinterpret_cast<const Node*>(storage);
    FieldInfo info;
    info.name = std::move(name);
    info.kind = detail::KindOf<Member>();
    info.offset = static_cast<size_t>(reinterpret_cast<const char*>(&(node->*member)) -
                                      reinterpret_cast<const char*>(static_cast<const Object*>(node)));
    fields.push_back(std::move(info));
    return FieldBuilder(&fields.back());
  }
  std::vector<FieldInfo> fields;
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
template <typename Node, typename = void>
struct OwnReflect : std::false_type {};
template <typename Node>
struct OwnReflect<Node, std::void_t<decltype(Node::Reflect(std::declval<Reflector<Node>&>()))>> : std::true_type {};

template <typename Node>
Object* CreateNode() {
  return NewObject<Node>();
}
}  // namespace detail

/// Registers a node class with its own fields (not the inherited ones). Called once per class by TREADLE_NODE.
/// A class without a Reflect of its own must not inherit one by accident: it declares an empty one.
template <typename Node>
const TypeInfo* RegisterNodeType() {
  Reflector<Node> reflector;
  if constexpr (detail::OwnReflect<Node>::value) {
    // An inherited Reflect is the parent's: its fields come through the parent's TypeInfo.
    if constexpr (detail::OwnReflect<typename Node::ParentNode>::value) {
      Reflector<typename Node::ParentNode> inherited;
      Node::ParentNode::Reflect(inherited);
      Node::Reflect(reflector);
      if (inherited.fields.size() == reflector.fields.size() && !inherited.fields.empty() &&
          inherited.fields.front().name == reflector.fields.front().name) {
        reflector.fields.clear();
      }
    } else {
      Node::Reflect(reflector);
    }
  }
  Object* (*create)() = nullptr;
  if constexpr (std::is_default_constructible_v<Node> && !std::is_abstract_v<Node>) create = &detail::CreateNode<Node>;
  return TypeInfo::Register(Node::kTypeKey, Node::ParentNode::StaticTypeInfo(), std::move(reflector.fields), create);
}

}  // namespace treadle
