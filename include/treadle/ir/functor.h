// SPDX-License-Identifier: Apache-2.0
// Dispatch on the class of a node through a table, one table per functor type.
#pragma once

#include <vector>

#include "treadle/runtime/object.h"

namespace treadle {

template <typename FType>
class NodeFunctor;

/// Table from node class to function. A class without an entry uses that of its nearest ancestor.
template <typename R, typename... Args>
class NodeFunctor<R(const ObjectRef& n, Args...)> {
 public:
  using FPointer = R (*)(const ObjectRef& n, Args...);

  template <typename Node>
  NodeFunctor& set_dispatch(FPointer f) {
    uint32_t index = Node::StaticTypeInfo()->index;
    if (table_.size() <= index) table_.resize(index + 1, nullptr);
    TREADLE_ICHECK(table_[index] == nullptr) << "dispatch for " << Node::kTypeKey << " is already set";
    table_[index] = f;
    return *this;
  }
  template <typename Node>
  NodeFunctor& clear_dispatch() {
    uint32_t index = Node::StaticTypeInfo()->index;
    TREADLE_ICHECK(index < table_.size()) << "no dispatch for " << Node::kTypeKey;
    table_[index] = nullptr;
    return *this;
  }
  bool can_dispatch(const ObjectRef& n) const { return Find(n) != nullptr; }
  R operator()(const ObjectRef& n, Args... args) const {
    FPointer f = Find(n);
    TREADLE_ICHECK(f != nullptr) << "no function for node kind " << n->type_key();
    return f(n, std::forward<Args>(args)...);
  }

 private:
  FPointer Find(const ObjectRef& n) const {
    for (const TypeInfo* t = n->type_info(); t != nullptr; t = t->parent) {
      if (t->index < table_.size() && table_[t->index] != nullptr) return table_[t->index];
    }
    return nullptr;
  }
  std::vector<FPointer> table_;
};

}  // namespace treadle
