// SPDX-License-Identifier: Apache-2.0
// Reuse of tensors' memory between the runs of a program, whatever their shapes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "treadle/runtime/device.h"

namespace treadle::runtime::vm {

/// Blocks come in sizes of four steps per power of two, so that shapes that vary a little share them. What is free is
/// bounded by what was in use at most and kMinFree; beyond that blocks go back to the system, those that were used
/// longest ago first: others, such as the one block of a plan, are used by every run, and pages of new memory are
/// zeroed. Blocks may be returned from any thread, and after the machine is gone.
class TensorPool : public std::enable_shared_from_this<TensorPool> {
 public:
  ~TensorPool();
  /// Memory for `bytes` bytes, aligned as tensors are; goes back to the pool with its last reference.
  std::shared_ptr<void> Take(int64_t bytes);
  int64_t bytes() const;
  static constexpr int64_t kMinFree = int64_t{16} << 20;

 private:
  static constexpr int kClasses = 4 * 49;
  static int ClassOf(int64_t bytes);
  static int64_t ClassBytes(int cls);
  void Release(void* data, int cls);
  /// Takes the free block that was used longest ago from the pool.
  void* Oldest();

  struct Free {
    void* data;
    uint64_t released;  ///< when, in blocks released before
  };

  mutable std::mutex mutex_;
  std::array<std::deque<Free>, kClasses> free_;  ///< of each size, in the order of their release
  int64_t in_use_ = 0, most_in_use_ = 0, free_bytes_ = 0;
  uint64_t released_ = 0;
};

}  // namespace treadle::runtime::vm
