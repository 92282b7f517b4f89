// SPDX-License-Identifier: Apache-2.0
// What is known of a variable ends with its scope.
#pragma once

#include <optional>
#include <utility>

namespace treadle {

/// While alive, `map` holds `value` for `key`; then again what it held before, or nothing. For analyses and code
/// generators that walk TIR: passes copy bodies (unrolling, loop partitioning), so that one Var is bound several times,
/// each time to another value, and what was known under one binding is wrong under the next.
template <typename M>
class ScopedEntry {
 public:
  ScopedEntry(M& map, typename M::key_type key, typename M::mapped_type value) : map_(map), key_(std::move(key)) {
    auto [it, inserted] = map_.try_emplace(key_);
    if (!inserted) outer_ = std::move(it->second);
    it->second = std::move(value);
  }
  ~ScopedEntry() {
    if (outer_) {
      map_[key_] = std::move(*outer_);
    } else {
      map_.erase(key_);
    }
  }
  ScopedEntry(const ScopedEntry&) = delete;
  ScopedEntry& operator=(const ScopedEntry&) = delete;

 private:
  M& map_;
  typename M::key_type key_;
  std::optional<typename M::mapped_type> outer_;
};

}  // namespace treadle
