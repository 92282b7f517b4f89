// SPDX-License-Identifier: Apache-2.0
// Immutable-by-sharing containers of references: String, Array<T>, Map<K, V>. Writers copy when shared.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "treadle/runtime/object.h"
#include "treadle/runtime/reflection.h"

namespace treadle {

class StringNode : public Object {
 public:
  std::string value;
  TREADLE_NODE(StringNode, Object, "runtime.String")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &StringNode::value);
  }
};

/// A string as an object, for use in Array and Map. Never null once constructed from text.
class String : public ObjectRef {
 public:
  String(const std::string& value) : String(std::string(value)) {}  // NOLINT(google-explicit-constructor)
  String(const char* value) : String(std::string(value)) {}         // NOLINT(google-explicit-constructor)
  String(std::string&& value) {                                     // NOLINT(google-explicit-constructor)
    auto node = MakeObject<StringNode>();
    node->value = std::move(value);
    data_ = std::move(node);
  }
  TREADLE_REF(String, ObjectRef, StringNode);
  const std::string& str() const { return get()->value; }
  operator const std::string&() const { return get()->value; }  // NOLINT(google-explicit-constructor)
  bool operator==(const String& other) const { return str() == other.str(); }
  bool operator==(const std::string& other) const { return str() == other; }
  bool operator==(const char* other) const { return str() == other; }
};

inline std::ostream& operator<<(std::ostream& os, const String& s) { return os << s.str(); }

class ArrayNode : public Object {
 public:
  std::vector<ObjectRef> items;
  TREADLE_NODE(ArrayNode, Object, "runtime.Array")
};

/// A sequence of references. A default-constructed Array is empty, not null.
template <typename T>
class Array : public ObjectRef {
 public:
  using value_type = T;
  using ContainerType = ArrayNode;

  class iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = T;
    iterator() = default;
    explicit iterator(const ObjectRef* position) : position_(position) {}
    T operator*() const { return T(position_->data()); }
    T operator[](difference_type n) const { return T(position_[n].data()); }
    iterator& operator++() {
      ++position_;
      return *this;
    }
    iterator operator++(int) { return iterator(position_++); }
    iterator& operator--() {
      --position_;
      return *this;
    }
    iterator& operator+=(difference_type n) {
      position_ += n;
      return *this;
    }
    iterator operator+(difference_type n) const { return iterator(position_ + n); }
    iterator operator-(difference_type n) const { return iterator(position_ - n); }
    difference_type operator-(const iterator& other) const { return position_ - other.position_; }
    auto operator<=>(const iterator& other) const = default;

   private:
    const ObjectRef* position_ = nullptr;
  };

  Array() : ObjectRef(MakeObject<ArrayNode>()) {}
  Array(std::initializer_list<T> items) : Array(items.begin(), items.end()) {}
  Array(const std::vector<T>& items) : Array(items.begin(), items.end()) {}  // NOLINT(google-explicit-constructor)
  template <typename It>
  Array(It begin, It end) : Array() {
    auto& out = node()->items;
    for (; begin != end; ++begin) out.push_back(T(*begin));
  }
  explicit Array(ObjectPtr<Object> data) : ObjectRef(std::move(data)) {}
  /// Upcast of the elements.
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U> && !std::is_same_v<T, U>>>
  Array(const Array<U>& other) : ObjectRef(other.data()) {}  // NOLINT(google-explicit-constructor)

  const ArrayNode* operator->() const { return static_cast<const ArrayNode*>(data_.get()); }
  size_t size() const { return (*this)->items.size(); }
  bool empty() const { return size() == 0; }
  T operator[](size_t i) const {
    const auto& items = (*this)->items;
    TREADLE_ICHECK(i < items.size()) << "index " << i << " of an array of " << items.size();
    return T(items[i].data());
  }
  T front() const { return (*this)[0]; }
  T back() const { return (*this)[size() - 1]; }
  iterator begin() const { return iterator((*this)->items.data()); }
  iterator end() const { return iterator((*this)->items.data() + size()); }

  void push_back(const T& item) { CopyOnWrite()->items.push_back(item); }
  void pop_back() { CopyOnWrite()->items.pop_back(); }
  void insert(size_t position, const T& item) {
    auto& items = CopyOnWrite()->items;
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(position), item);
  }
  void erase(size_t position) {
    auto& items = CopyOnWrite()->items;
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(position));
  }
  void Set(size_t i, const T& item) { CopyOnWrite()->items.at(i) = item; }
  void reserve(size_t n) { CopyOnWrite()->items.reserve(n); }
  void clear() { *this = Array(); }

  /// Applies `f` to each element; returns this very array when `f` returned each element unchanged.
  template <typename F>
  Array Map(F&& f) const {
    Array result;
    bool changed = false;
    auto& out = result.node()->items;
    out.reserve(size());
    for (const ObjectRef& item : (*this)->items) {
      T mapped = f(T(item.data()));
      changed |= !mapped.same_as(item);
      out.push_back(std::move(mapped));
    }
    return changed ? result : *this;
  }
  std::vector<T> ToVector() const { return std::vector<T>(begin(), end()); }

 private:
  ArrayNode* node() { return static_cast<ArrayNode*>(data_.get()); }
  ArrayNode* CopyOnWrite() {
    if (!data_->unique()) data_ = ObjectPtr<Object>(NewObject<ArrayNode>(*(*this).operator->()));
    return node();
  }
};

/// Hashes strings by value and everything else by identity.
struct MapKeyHash {
  size_t operator()(const ObjectRef& key) const {
    if (const auto* s = key.as<StringNode>()) return std::hash<std::string>()(s->value);
    return ObjectPtrHash()(key);
  }
};
struct MapKeyEqual {
  bool operator()(const ObjectRef& a, const ObjectRef& b) const {
    if (a.same_as(b)) return true;
    const auto* x = a.as<StringNode>();
    const auto* y = b.as<StringNode>();
    return x != nullptr && y != nullptr && x->value == y->value;
  }
};

class MapNode : public Object {
 public:
  std::vector<std::pair<ObjectRef, ObjectRef>> items;  ///< in order of insertion
  std::unordered_map<ObjectRef, size_t, MapKeyHash, MapKeyEqual> index;
  TREADLE_NODE(MapNode, Object, "runtime.Map")
};

/// A map of references that keeps the order of insertion. Strings compare by value, other keys by identity.
/// A default-constructed Map is empty, not null.
template <typename K, typename V>
class Map : public ObjectRef {
 public:
  using ContainerType = MapNode;
  using value_type = std::pair<K, V>;

  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::pair<K, V>;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = value_type;
    explicit iterator(const std::pair<ObjectRef, ObjectRef>* position) : position_(position) {}
    value_type operator*() const { return {K(position_->first.data()), V(position_->second.data())}; }
    iterator& operator++() {
      ++position_;
      return *this;
    }
    bool operator==(const iterator& other) const = default;

   private:
    const std::pair<ObjectRef, ObjectRef>* position_;
  };

  Map() : ObjectRef(MakeObject<MapNode>()) {}
  Map(std::initializer_list<std::pair<K, V>> items) : Map() {
    for (const auto& [key, value] : items) Set(key, value);
  }
  explicit Map(ObjectPtr<Object> data) : ObjectRef(std::move(data)) {}

  const MapNode* operator->() const { return static_cast<const MapNode*>(data_.get()); }
  size_t size() const { return (*this)->items.size(); }
  bool empty() const { return size() == 0; }
  size_t count(const K& key) const { return (*this)->index.count(key); }
  bool contains(const K& key) const { return count(key) != 0; }
  /// The value at `key`, or nothing.
  std::optional<V> Get(const K& key) const {
    auto it = (*this)->index.find(key);
    if (it == (*this)->index.end()) return std::nullopt;
    return V((*this)->items[it->second].second.data());
  }
  V at(const K& key) const {
    auto value = Get(key);
    TREADLE_ICHECK(value.has_value()) << "key isn't in the map";
    return *value;
  }
  iterator begin() const { return iterator((*this)->items.data()); }
  iterator end() const { return iterator((*this)->items.data() + size()); }
  void Set(const K& key, const V& value) {
    MapNode* node = CopyOnWrite();
    auto [it, inserted] = node->index.emplace(key, node->items.size());
    if (inserted) {
      node->items.emplace_back(key, value);
    } else {
      node->items[it->second].second = value;
    }
  }
  void erase(const K& key) {
    if (!contains(key)) return;
    Map result;
    for (const auto& [k, v] : *this) {
      if (!MapKeyEqual()(k, key)) result.Set(k, v);
    }
    *this = result;
  }

 private:
  MapNode* CopyOnWrite() {
    if (!data_->unique()) data_ = ObjectPtr<Object>(NewObject<MapNode>(*(*this).operator->()));
    return static_cast<MapNode*>(data_.get());
  }
};

}  // namespace treadle
