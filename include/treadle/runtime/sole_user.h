// SPDX-License-Identifier: Apache-2.0
// What belongs to one thread at a time says so, rather than computing nonsense, when two threads use it at once.
#pragma once

#include <atomic>

#include "treadle/base/error.h"

namespace treadle::runtime {

/// The thread that uses an object now. Costs one uncontended compare-and-exchange per use; finds every overlap of two
/// uses, and never one that isn't.
class SoleUser {
 public:
  /// As long as it lives, other threads' uses throw a RuntimeError. The same thread may nest them.
  class Use {
   public:
    explicit Use(SoleUser* sole) : sole_(sole) {
      const void* none = nullptr;
      if (sole->thread_.compare_exchange_strong(none, Self(), std::memory_order_acquire)) return;
      sole_ = nullptr;
      if (none == Self()) return;
      throw RuntimeError(
          "another thread uses this context now; give each thread a context of its own (Model::CreateContext, "
          "TreadleModelClone), or use a lock");
    }
    ~Use() {
      if (sole_ != nullptr) sole_->thread_.store(nullptr, std::memory_order_release);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    static const void* Self() {
      static thread_local const char self = 0;
      return &self;
    }
    SoleUser* sole_;
  };

 private:
  std::atomic<const void*> thread_{nullptr};
};

}  // namespace treadle::runtime
