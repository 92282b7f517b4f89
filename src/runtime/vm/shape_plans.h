// SPDX-License-Identifier: Apache-2.0
// Memory of runs, planned per shape: the first run with arguments of some shapes is followed, and where its tensors
// lie in one block is remembered for the next ones, and which of them become results: those are made where the user
// wants them. What a run does with values (branches, loops) may differ from the one that was followed: a tensor that
// isn't as planned, or whose place is still in use, gets memory of its own.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/vm/tensor_pool.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::runtime::vm {

/// Places of the tensors of a run, in the order in which they are made.
struct ShapePlan {
  struct Slot {
    int64_t bytes = 0;
    int64_t offset = -1;  ///< -1: outlives the run, gets memory of its own
    int result = -1;      ///< which result of the run it is; -1: none
  };
  std::vector<Slot> slots;
  int64_t bytes = 0;
};

/// Gives a run its memory: as planned, or noting what a plan has to know.
class RunMemory : public std::enable_shared_from_this<RunMemory> {
 public:
  /// `bound`: where results are wanted, by their index; null tensors for those that may be anywhere.
  RunMemory(std::shared_ptr<TensorPool> pool, std::shared_ptr<const ShapePlan> plan, std::vector<NDArray> bound = {})
      : pool_(std::move(pool)), plan_(std::move(plan)), bound_(std::move(bound)) {}
  std::shared_ptr<void> Take(int64_t bytes);
  bool is_planned() const { return plan_ != nullptr; }
  /// The plan of a run that was followed and is over; its results, whose data is at `results`, are still in use.
  std::shared_ptr<const ShapePlan> MakePlan(const std::vector<const void*>& results = {});

 private:
  struct Life {
    int64_t bytes, born, died;
    const void* data;
  };
  std::shared_ptr<void> TakePlanned(int64_t bytes);
  /// The memory that the result of a slot is bound to; null where it isn't, or has another size.
  std::shared_ptr<void> TakeBound(const ShapePlan::Slot& slot, int64_t bytes) const;

  std::shared_ptr<TensorPool> pool_;
  std::shared_ptr<const ShapePlan> plan_;
  std::vector<NDArray> bound_;
  std::mutex mutex_;  ///< tensors may be given back from any thread
  std::shared_ptr<void> block_;
  std::vector<size_t> live_;  ///< slots in use
  std::vector<Life> lives_;
  size_t next_ = 0;
  int64_t clock_ = 0;
};

/// The plans of the shapes that were used last.
class ShapePlans {
 public:
  using Key = std::vector<int64_t>;
  static constexpr size_t kMostPlans = 64;
  /// Longer runs aren't planned.
  static constexpr size_t kMostSlots = 1024;

  /// Null where there is none.
  std::shared_ptr<const ShapePlan> Find(const Key& key);
  void Add(Key key, std::shared_ptr<const ShapePlan> plan);
  size_t size() const { return plans_.size(); }

 private:
  using Entry = std::pair<Key, std::shared_ptr<const ShapePlan>>;
  std::list<Entry> plans_;  ///< the one used last comes first
  std::map<Key, std::list<Entry>::iterator> by_key_;
};

}  // namespace treadle::runtime::vm
