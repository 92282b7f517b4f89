// SPDX-License-Identifier: Apache-2.0
// Reference-counted objects, the references that point to them, and their run-time type information.
//
// A data class derives from Object (FooNode); users hold it through a reference class (Foo) derived from
// ObjectRef. Data is immutable once shared: a reference hands out `const FooNode*`, and CopyOnWrite() gives a
// writable node, a copy unless the reference is the only one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "treadle/base/error.h"

namespace treadle {

class Object;
struct FieldInfo;  // reflection.h

/// What is known about a class of objects at run time. One instance per class, alive for ever.
struct TypeInfo {
  std::string key;                ///< such as "relay.Call"
  uint32_t index;                 ///< dense, for dispatch tables
  const TypeInfo* parent;         ///< null for Object
  std::vector<FieldInfo> fields;  ///< in declaration order, those of the parents first
  Object* (*create)() = nullptr;  ///< default-constructs an instance (null where the class can't be)

  ~TypeInfo();
  bool IsA(const TypeInfo* ancestor) const {
    for (const TypeInfo* t = this; t != nullptr; t = t->parent) {
      if (t == ancestor) return true;
    }
    return false;
  }
  /// The type registered under `key`, or null.
  static const TypeInfo* Find(const std::string& key);
  /// Number of types registered so far; every index is below it.
  static uint32_t Count();
  /// Adds a type; `fields` are its own (the parent's are prepended). Registering a key twice returns the first.
  static const TypeInfo* Register(const std::string& key, const TypeInfo* parent, std::vector<FieldInfo> fields,
                                  Object* (*create)());
};

/// Base of all reference-counted data.
///
/// Destruction is iterative: releasing the last reference to the head of a chain of any length doesn't recurse.
class Object {
 public:
  Object() = default;
  Object(const Object& other) : type_info_(other.type_info_) {}
  Object& operator=(const Object&) { return *this; }
  virtual ~Object() = default;

  static constexpr const char* kTypeKey = "Object";
  static const TypeInfo* StaticTypeInfo();

  const TypeInfo* type_info() const { return type_info_; }
  uint32_t type_index() const { return type_info_->index; }
  const std::string& type_key() const { return type_info_->key; }
  template <typename T>
  bool IsInstance() const {
    return type_info_->IsA(T::StaticTypeInfo());
  }
  bool unique() const { return ref_count_.load(std::memory_order_acquire) == 1; }
  int use_count() const { return ref_count_.load(std::memory_order_acquire); }

  void IncRef() const { ref_count_.fetch_add(1, std::memory_order_relaxed); }
  /// Takes a reference unless the last one is gone; for tables that don't keep their entries alive.
  bool TryIncRef() const {
    int32_t count = ref_count_.load(std::memory_order_relaxed);
    while (count > 0) {
      if (ref_count_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)) return true;
    }
    return false;
  }
  void DecRef() const {
    if (ref_count_.fetch_sub(1, std::memory_order_acq_rel) == 1) Destroy(this);
  }

 private:
  template <typename T, typename... Args>
  friend T* NewObject(Args&&... args);

  static void Destroy(const Object* object);

  mutable std::atomic<int32_t> ref_count_{0};
  const TypeInfo* type_info_ = nullptr;
};

template <typename T, typename... Args>
T* NewObject(Args&&... args) {
  T* object = new T(std::forward<Args>(args)...);
  object->type_info_ = T::StaticTypeInfo();
  return object;
}

namespace detail {
/// Drops a reference; null is allowed. Not inline: with the blocks of every destructor and of every exception's cleanup
/// the project takes a seventh longer to build.
void Release(const Object* object) noexcept;
}  // namespace detail

/// Owning pointer to an Object; null is allowed.
template <typename T>
class ObjectPtr {
 public:
  ObjectPtr() = default;
  ObjectPtr(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  explicit ObjectPtr(T* object) : object_(object) {
    if (object_) object_->IncRef();
  }
  ObjectPtr(const ObjectPtr& other) : ObjectPtr(other.object_) {}
  ObjectPtr(ObjectPtr&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  ObjectPtr(const ObjectPtr<U>& other) : ObjectPtr(other.get()) {}  // NOLINT(google-explicit-constructor)
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  ObjectPtr(ObjectPtr<U>&& other) noexcept : object_(other.Detach()) {}  // NOLINT(google-explicit-constructor)
  ~ObjectPtr() { detail::Release(object_); }
  ObjectPtr& operator=(ObjectPtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const ObjectPtr& other) const { return object_ == other.object_; }
  /// Gives up ownership without releasing.
  T* Detach() { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

template <typename T, typename... Args>
ObjectPtr<T> MakeObject(Args&&... args) {
  return ObjectPtr<T>(NewObject<T>(std::forward<Args>(args)...));
}

/// Base of all references. Null unless stated otherwise by the subclass.
class ObjectRef {
 public:
  using ContainerType = Object;

  ObjectRef() = default;
  explicit ObjectRef(ObjectPtr<Object> data) : data_(std::move(data)) {}

  const Object* get() const { return data_.get(); }
  const Object* operator->() const { return data_.get(); }
  bool defined() const { return static_cast<bool>(data_); }
  /// Whether both refer to the same object.
  bool same_as(const ObjectRef& other) const { return data_ == other.data_; }
  bool unique() const { return data_->unique(); }

  /// The node as a `T`, or null when the reference is null or refers to something else.
  template <typename T, typename = std::enable_if_t<std::is_base_of_v<Object, T>>>
  const T* as() const {
    return data_ && data_->IsInstance<T>() ? static_cast<const T*>(data_.get()) : nullptr;
  }
  const ObjectPtr<Object>& data() const { return data_; }

 protected:
  ObjectPtr<Object> data_;
};

/// Reference to the object behind a raw pointer that `this` or a visitor received.
template <typename Ref>
Ref GetRef(const typename Ref::ContainerType* node) {
  return Ref(ObjectPtr<Object>(const_cast<Object*>(static_cast<const Object*>(node))));
}

namespace detail {
[[noreturn]] void ThrowBadCast(const ObjectRef& ref, const char* expected);
}  // namespace detail

/// Casts a reference; a mismatch is an InternalError that names both types. Null passes through.
template <typename Ref>
Ref Downcast(const ObjectRef& ref) {
  if (ref.defined() && !ref->IsInstance<typename Ref::ContainerType>()) {
    detail::ThrowBadCast(ref, Ref::ContainerType::kTypeKey);
  }
  return Ref(ref.data());
}

struct ObjectPtrHash {
  size_t operator()(const ObjectRef& ref) const { return reinterpret_cast<size_t>(ref.get()); }
};
struct ObjectPtrEqual {
  bool operator()(const ObjectRef& a, const ObjectRef& b) const { return a.same_as(b); }
};

}  // namespace treadle

/// In a node class of a .cc file: names its type and its parent. `key` is the registered name, such as "relay.Call".
/// A class that has fields also defines `template <typename R> static void Reflect(R& r)`; see reflection.h.
#define TREADLE_NODE(NodeName, ParentName, key)                                       \
  static constexpr const char* kTypeKey = key;                                        \
  using ParentNode = ParentName;                                                      \
  using SelfNode = NodeName;                                                          \
  static const ::treadle::TypeInfo* StaticTypeInfo() {                                \
    static const ::treadle::TypeInfo* info = ::treadle::RegisterNodeType<NodeName>(); \
    return info;                                                                      \
  }

/// As TREADLE_NODE, for a node class of a header: one .cc file adds `TREADLE_DEFINE_NODE(NodeName);` in the class's
/// namespace. Registration, virtual table and destructor are then compiled once, not in every file that includes
/// the header.
#define TREADLE_DECLARE_NODE(NodeName, ParentName, key)                                     \
  static constexpr const char* kTypeKey = key;                                              \
  using ParentNode = ParentName;                                                            \
  using SelfNode = NodeName;                                                                \
  ~NodeName() override;                                                                     \
  static const ::treadle::TypeInfo* StaticTypeInfo() {                                      \
    const ::treadle::TypeInfo* info = registered_type_info.load(std::memory_order_acquire); \
    return info != nullptr ? info : RegisterTypeInfo();                                     \
  }                                                                                         \
  static const ::treadle::TypeInfo* RegisterTypeInfo();                                     \
  static std::atomic<const ::treadle::TypeInfo*> registered_type_info /* NOLINT: null until used */

#define TREADLE_DEFINE_NODE(NodeName)                                              \
  std::atomic<const ::treadle::TypeInfo*> NodeName::registered_type_info{nullptr}; \
  const ::treadle::TypeInfo* NodeName::RegisterTypeInfo() {                        \
    const ::treadle::TypeInfo* info = ::treadle::RegisterNodeType<NodeName>();     \
    registered_type_info.store(info, std::memory_order_release);                   \
    return info;                                                                   \
  }                                                                                \
  NodeName::~NodeName() = default

/// In a reference class: construction from a pointer and typed access to the node.
#define TREADLE_REF(RefName, ParentRef, NodeName)                                                    \
  RefName() = default;                                                                               \
  explicit RefName(::treadle::ObjectPtr<::treadle::Object> data) : ParentRef(std::move(data)) {}     \
  const NodeName* operator->() const { return static_cast<const NodeName*>(this->data_.get()); }     \
  const NodeName* get() const { return static_cast<const NodeName*>(this->data_.get()); }            \
  const NodeName& operator*() const { return *get(); }                                               \
  /** A node that may be written: a copy unless this is the only reference. */                       \
  NodeName* CopyOnWrite() {                                                                          \
    if (!this->data_->unique()) {                                                                    \
      this->data_ = ::treadle::ObjectPtr<::treadle::Object>(::treadle::NewObject<NodeName>(*get())); \
    }                                                                                                \
    return static_cast<NodeName*>(this->data_.get());                                                \
  }                                                                                                  \
  using ContainerType = NodeName

/// As TREADLE_REF, for references to a class that can't be copied or is abstract.
#define TREADLE_BASE_REF(RefName, ParentRef, NodeName)                                           \
  RefName() = default;                                                                           \
  explicit RefName(::treadle::ObjectPtr<::treadle::Object> data) : ParentRef(std::move(data)) {} \
  const NodeName* operator->() const { return static_cast<const NodeName*>(this->data_.get()); } \
  const NodeName* get() const { return static_cast<const NodeName*>(this->data_.get()); }        \
  const NodeName& operator*() const { return *get(); }                                           \
  using ContainerType = NodeName
