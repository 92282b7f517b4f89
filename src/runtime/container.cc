// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/container.h"

#include <functional>

template class std::vector<treadle::ObjectRef>;
template class std::unordered_map<treadle::ObjectRef, size_t, treadle::MapKeyHash, treadle::MapKeyEqual>;

namespace treadle {

TREADLE_DEFINE_NODE(StringNode);
TREADLE_DEFINE_NODE(ArrayNode);
TREADLE_DEFINE_NODE(MapNode);

String::String(const std::string& value) : String(std::string(value)) {}

String::String(const char* value) : String(std::string(value)) {}

String::String(std::string&& value) {
  auto node = MakeObject<StringNode>();
  node->value = std::move(value);
  data_ = std::move(node);
}

BaseArray::BaseArray() : ObjectRef(MakeObject<ArrayNode>()) {}

ArrayNode* BaseArray::CopyOnWrite() {
  if (!data_->unique()) data_ = ObjectPtr<Object>(NewObject<ArrayNode>(*(*this).operator->()));
  return node();
}

const ObjectRef& BaseArray::At(size_t i) const {
  const auto& items = (*this)->items;
  TREADLE_ICHECK(i < items.size()) << "index " << i << " of an array of " << items.size();
  return items[i];
}

void BaseArray::Append(const ObjectRef& item) { CopyOnWrite()->items.push_back(item); }

void BaseArray::pop_back() { CopyOnWrite()->items.pop_back(); }

void BaseArray::InsertAt(size_t position, const ObjectRef& item) {
  auto& items = CopyOnWrite()->items;
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(position), item);
}

void BaseArray::erase(size_t position) {
  auto& items = CopyOnWrite()->items;
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(position));
}

void BaseArray::SetAt(size_t i, const ObjectRef& item) { CopyOnWrite()->items.at(i) = item; }

void BaseArray::reserve(size_t n) { CopyOnWrite()->items.reserve(n); }

size_t MapKeyHash::operator()(const ObjectRef& key) const {
  if (const auto* s = key.as<StringNode>()) return std::hash<std::string>()(s->value);
  return ObjectPtrHash()(key);
}

bool MapKeyEqual::operator()(const ObjectRef& a, const ObjectRef& b) const {
  if (a.same_as(b)) return true;
  const auto* x = a.as<StringNode>();
  const auto* y = b.as<StringNode>();
  return x != nullptr && y != nullptr && x->value == y->value;
}

BaseMap::BaseMap() : ObjectRef(MakeObject<MapNode>()) {}

const ObjectRef* BaseMap::Find(const ObjectRef& key) const {
  auto it = (*this)->index.find(key);
  return it == (*this)->index.end() ? nullptr : &(*this)->items[it->second].second;
}

const ObjectRef& BaseMap::At(const ObjectRef& key) const {
  const ObjectRef* value = Find(key);
  TREADLE_ICHECK(value != nullptr) << "key isn't in the map";
  return *value;
}

void BaseMap::SetAt(const ObjectRef& key, const ObjectRef& value) {
  if (!data_->unique()) data_ = ObjectPtr<Object>(NewObject<MapNode>(*(*this).operator->()));
  auto* node = static_cast<MapNode*>(data_.get());
  auto [it, inserted] = node->index.emplace(key, node->items.size());
  if (inserted) {
    node->items.emplace_back(key, value);
  } else {
    node->items[it->second].second = value;
  }
}

void BaseMap::EraseAt(const ObjectRef& key) {
  if (Find(key) == nullptr) return;
  BaseMap result;
  for (const auto& [k, v] : (*this)->items) {
    if (!MapKeyEqual()(k, key)) result.SetAt(k, v);
  }
  *this = result;
}

}  // namespace treadle
