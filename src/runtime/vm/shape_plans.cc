// SPDX-License-Identifier: Apache-2.0
#include "runtime/vm/shape_plans.h"

#include <algorithm>
#include <numeric>

#include "treadle/base/int_math.h"

namespace treadle::runtime::vm {

std::shared_ptr<void> RunMemory::Take(int64_t bytes) {
  if (plan_ != nullptr) return TakePlanned(bytes);
  std::shared_ptr<void> storage = pool_->Take(bytes);
  size_t index = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // One more than fits: such a run isn't planned.
    if (lives_.size() > ShapePlans::kMostSlots) return storage;
    index = lives_.size();
    lives_.push_back({bytes, clock_++, -1, storage.get()});
  }
  void* data = storage.get();
  return std::shared_ptr<void>(data, [self = shared_from_this(), index, storage = std::move(storage)](void*) {
    std::lock_guard<std::mutex> lock(self->mutex_);
    self->lives_[index].died = self->clock_++;
  });
}

std::shared_ptr<void> RunMemory::TakeBound(const ShapePlan::Slot& slot, int64_t bytes) const {
  if (slot.result < 0 || static_cast<size_t>(slot.result) >= bound_.size()) return nullptr;
  const NDArray& place = bound_[static_cast<size_t>(slot.result)];
  if (!place.defined() || place.nbytes() != bytes) return nullptr;
  return std::shared_ptr<void>(place.data_ptr(), [place](void*) {});
}

std::shared_ptr<void> RunMemory::TakePlanned(int64_t bytes) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t index = next_++;
    if (index < plan_->slots.size()) {
      if (std::shared_ptr<void> bound = TakeBound(plan_->slots[index], bytes)) return bound;
    }
    bool fits = index < plan_->slots.size() && plan_->slots[index].bytes == bytes && plan_->slots[index].offset >= 0;
    if (fits) {
      const int64_t begin = plan_->slots[index].offset;
      for (size_t other : live_) {
        const ShapePlan::Slot& used = plan_->slots[other];
        fits = fits && (begin + bytes <= used.offset || used.offset + used.bytes <= begin);
      }
    }
    if (fits) {
      if (block_ == nullptr) block_ = pool_->Take(plan_->bytes);
      live_.push_back(index);
      void* data = static_cast<char*>(block_.get()) + plan_->slots[index].offset;
      return std::shared_ptr<void>(data, [self = shared_from_this(), index](void*) {
        std::lock_guard<std::mutex> lock(self->mutex_);
        std::erase(self->live_, index);
      });
    }
  }
  return pool_->Take(bytes);
}

std::shared_ptr<const ShapePlan> RunMemory::MakePlan(const std::vector<const void*>& results) {
  auto plan = std::make_shared<ShapePlan>();
  std::lock_guard<std::mutex> lock(mutex_);
  if (lives_.size() > ShapePlans::kMostSlots) return plan;
  plan->slots.resize(lives_.size());
  std::vector<size_t> order(lives_.size());
  std::iota(order.begin(), order.end(), 0);
  // The largest first, each at the lowest place that is free for its whole life.
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return lives_[a].bytes != lives_[b].bytes ? lives_[a].bytes > lives_[b].bytes : a < b;
  });
  constexpr auto kAlign = static_cast<int64_t>(kTensorAlignment);
  auto size_of = [&](size_t i) { return RoundUp(lives_[i].bytes, kAlign); };
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    ShapePlan::Slot& slot = plan->slots[i];
    slot.bytes = lives_[i].bytes;
    if (lives_[i].died < 0) {
      const auto result = std::find(results.begin(), results.end(), lives_[i].data);
      if (result != results.end()) slot.result = static_cast<int>(result - results.begin());
      continue;
    }
    int64_t offset = 0;
    for (size_t other : placed) {
      const bool together = lives_[other].born < lives_[i].died && lives_[i].born < lives_[other].died;
      if (!together) continue;
      const int64_t begin = plan->slots[other].offset;
      if (begin - offset >= size_of(i)) break;
      offset = std::max<int64_t>(offset, begin + size_of(other));
    }
    slot.offset = offset;
    plan->bytes = std::max<int64_t>(plan->bytes, offset + size_of(i));
    auto after = std::upper_bound(placed.begin(), placed.end(), offset,
                                  [&](int64_t at, size_t other) { return at < plan->slots[other].offset; });
    placed.insert(after, i);
  }
  return plan;
}

std::shared_ptr<const ShapePlan> ShapePlans::Find(const Key& key) {
  auto it = by_key_.find(key);
  if (it == by_key_.end()) return nullptr;
  plans_.splice(plans_.begin(), plans_, it->second);
  return it->second->second;
}

void ShapePlans::Add(Key key, std::shared_ptr<const ShapePlan> plan) {
  if (by_key_.count(key) != 0) return;
  plans_.emplace_front(std::move(key), std::move(plan));
  by_key_[plans_.front().first] = plans_.begin();
  if (plans_.size() <= kMostPlans) return;
  by_key_.erase(plans_.back().first);
  plans_.pop_back();
}

}  // namespace treadle::runtime::vm
