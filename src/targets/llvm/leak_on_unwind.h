// SPDX-License-Identifier: Apache-2.0
// Objects of LLVM when memory runs out.
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <utility>

namespace treadle::targets {

/// An object that isn't destroyed when an exception passes. LLVM is compiled without exception handling: what it was
/// changing when an allocation failed may be half changed (a hash table with the new size and the old buckets), and its
/// destructor would free what it doesn't own. Only for scopes in which exceptions mean that memory ran out.
template <typename T>
class LeakOnUnwind {
 public:
  template <typename... Args>
  explicit LeakOnUnwind(Args&&... args) {
    new (static_cast<void*>(bytes_)) T(std::forward<Args>(args)...);
  }
  ~LeakOnUnwind() {
    if (std::uncaught_exceptions() == exceptions_) (*this)->~T();
  }
  LeakOnUnwind(const LeakOnUnwind&) = delete;
  LeakOnUnwind& operator=(const LeakOnUnwind&) = delete;
  T& operator*() { return *std::launder(reinterpret_cast<T*>(bytes_)); }
  T* operator->() { return &**this; }

 private:
  const int exceptions_ = std::uncaught_exceptions();
  alignas(T) unsigned char bytes_[sizeof(T)];
};

/// Gives up an object that may be in such a state.
template <typename T>
void Leak(std::unique_ptr<T>* owner) {
  const T* lost = owner->release();
  static_cast<void>(lost);
}

}  // namespace treadle::targets
