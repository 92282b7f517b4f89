// SPDX-License-Identifier: Apache-2.0
// Immutable-by-sharing containers of references: String, Array<T>, Map<K, V>. Writers copy when shared.
#pragma once

#include <initializer_list>
#include <iosfwd>
#include <optional>
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
  TREADLE_DECLARE_NODE(StringNode, Object, "runtime.String");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &StringNode::value);
  }
};

/// A string as an object, for use in Array and Map. Never null once constructed from text.
class String : public ObjectRef {
 public:
  String(const std::string& value);  // NOLINT(google-explicit-constructor)
  String(const char* value);         // NOLINT(google-explicit-constructor)
  String(std::string&& value);       // NOLINT(google-explicit-constructor)
  TREADLE_REF(String, ObjectRef, StringNode);
  const std::string& str() const { return get()->value; }
  operator const std::string&() const { return get()->value; }  // NOLINT(google-explicit-constructor)
  bool operator==(const String& other) const { return str() == other.str(); }
  bool operator==(const std::string& other) const { return str() == other; }
  bool operator==(const char* other) const { return str() == other; }
};

template <typename Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& os, const String& s) {
  return os << s.str();
}

class ArrayNode : public Object {
 public:
  std::vector<ObjectRef> items;
  TREADLE_DECLARE_NODE(ArrayNode, Object, "runtime.Array");
};

/// What arrays of all element types share, compiled once.
class BaseArray : public ObjectRef {
 public:
  using ContainerType = ArrayNode;
  const ArrayNode* operator->() const { return static_cast<const ArrayNode*>(data_.get()); }
  size_t size() const { return (*this)->items.size(); }
  bool empty() const { return size() == 0; }
  void pop_back();
  void erase(size_t position);
  void reserve(size_t n);

 protected:
  BaseArray();
  explicit BaseArray(ObjectPtr<Object> data) : ObjectRef(std::move(data)) {}
  /// Checks the index.
  const ObjectRef& At(size_t i) const;
  void Append(const ObjectRef& item);
  void InsertAt(size_t position, const ObjectRef& item);
  void SetAt(size_t i, const ObjectRef& item);
  ArrayNode* node() { return static_cast<ArrayNode*>(data_.get()); }

 private:
  ArrayNode* CopyOnWrite();
};

/// A sequence of references. A default-constructed Array is empty, not null.
template <typename T>
class Array : public BaseArray {
 public:
  using value_type = T;

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

  Array() = default;
  Array(std::initializer_list<T> items) : Array(items.begin(), items.end()) {}
  Array(const std::vector<T>& items) : Array(items.begin(), items.end()) {}  // NOLINT(google-explicit-constructor)
  template <typename It>
  Array(It begin, It end) {
    auto& out = node()->items;
    for (; begin != end; ++begin) out.push_back(T(*begin));
  }
  explicit Array(ObjectPtr<Object> data) : BaseArray(std::move(data)) {}
  /// Upcast of the elements.
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U> && !std::is_same_v<T, U>>>
  Array(const Array<U>& other) : BaseArray(other.data()) {}  // NOLINT(google-explicit-constructor)

  T operator[](size_t i) const { return T(At(i).data()); }
  T front() const { return (*this)[0]; }
  T back() const { return (*this)[size() - 1]; }
  iterator begin() const { return iterator((*this)->items.data()); }
  iterator end() const { return iterator((*this)->items.data() + size()); }

  void push_back(const T& item) { Append(item); }
  void insert(size_t position, const T& item) { InsertAt(position, item); }
  void Set(size_t i, const T& item) { SetAt(i, item); }
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
};

/// Hashes strings by value and everything else by identity.
struct MapKeyHash {
  size_t operator()(const ObjectRef& key) const;
};
struct MapKeyEqual {
  bool operator()(const ObjectRef& a, const ObjectRef& b) const;
};

class MapNode : public Object {
 public:
  std::vector<std::pair<ObjectRef, ObjectRef>> items;  ///< in order of insertion
  std::unordered_map<ObjectRef, size_t, MapKeyHash, MapKeyEqual> index;
  TREADLE_DECLARE_NODE(MapNode, Object, "runtime.Map");
};

/// What maps of all types share, compiled once.
class BaseMap : public ObjectRef {
 public:
  using ContainerType = MapNode;
  const MapNode* operator->() const { return static_cast<const MapNode*>(data_.get()); }
  size_t size() const { return (*this)->items.size(); }
  bool empty() const { return size() == 0; }

 protected:
  BaseMap();
  explicit BaseMap(ObjectPtr<Object> data) : ObjectRef(std::move(data)) {}
  /// The value at `key`, or null.
  const ObjectRef* Find(const ObjectRef& key) const;
  /// As Find; a missing key is an InternalError.
  const ObjectRef& At(const ObjectRef& key) const;
  void SetAt(const ObjectRef& key, const ObjectRef& value);
  void EraseAt(const ObjectRef& key);
};

/// A map of references that keeps the order of insertion. Strings compare by value, other keys by identity.
/// A default-constructed Map is empty, not null.
template <typename K, typename V>
class Map : public BaseMap {
 public:
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

  Map() = default;
  Map(std::initializer_list<std::pair<K, V>> items) {
    for (const auto& [key, value] : items) Set(key, value);
  }
  explicit Map(ObjectPtr<Object> data) : BaseMap(std::move(data)) {}

  size_t count(const K& key) const { return Find(key) == nullptr ? 0 : 1; }
  bool contains(const K& key) const { return Find(key) != nullptr; }
  /// The value at `key`, or nothing.
  std::optional<V> Get(const K& key) const {
    const ObjectRef* value = Find(key);
    if (value == nullptr) return std::nullopt;
    return V(value->data());
  }
  V at(const K& key) const { return V(At(key).data()); }
  iterator begin() const { return iterator((*this)->items.data()); }
  iterator end() const { return iterator((*this)->items.data() + size()); }
  void Set(const K& key, const V& value) { SetAt(key, value); }
  void erase(const K& key) { EraseAt(key); }
};

}  // namespace treadle

extern template class std::vector<treadle::ObjectRef>;
extern template class std::unordered_map<treadle::ObjectRef, size_t, treadle::MapKeyHash, treadle::MapKeyEqual>;
