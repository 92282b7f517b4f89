// SPDX-License-Identifier: Apache-2.0
#include "runtime/vm/tensor_pool.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "runtime/guarded_memory.h"
#include "treadle/base/error.h"
#include "treadle/base/int_math.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::runtime::vm {

constexpr int64_t kSmallest = 256;

int TensorPool::ClassOf(int64_t bytes) {
  auto units = static_cast<uint64_t>(CeilDiv(std::max<int64_t>(bytes, 1), kSmallest));
  if (units <= 4) return static_cast<int>(units) - 1;
  int exponent = std::bit_width(units - 1) - 1;  // units in (2^exponent, 2^(exponent + 1)]
  uint64_t step = uint64_t{1} << (exponent - 2);
  return static_cast<int>(4 * (exponent - 1) + static_cast<int>((units - 1 - (uint64_t{1} << exponent)) / step));
}

int64_t TensorPool::ClassBytes(int cls) {
  if (cls < 4) return kSmallest * (cls + 1);
  int exponent = cls / 4 + 1;
  uint64_t step = uint64_t{1} << (exponent - 2);
  return kSmallest * static_cast<int64_t>((uint64_t{1} << exponent) + step * static_cast<uint64_t>(cls % 4 + 1));
}

std::shared_ptr<void> TensorPool::Take(int64_t bytes) {
  if (bytes > int64_t{1} << 48) throw ShapeError(StrCat("a tensor of ", bytes, " bytes is too large"));
  if (GuardsMemory()) {
    return std::shared_ptr<void>(
        DeviceAPI::Get(Cpu())->AllocDataSpace(Cpu(), static_cast<size_t>(bytes), kTensorAlignment),
        [](void* p) { DeviceAPI::Get(Cpu())->FreeDataSpace(Cpu(), p); });
  }
  int cls = ClassOf(bytes);
  int64_t size = ClassBytes(cls);
  void* data = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    in_use_ += size;
    most_in_use_ = std::max(most_in_use_, in_use_);
    if (!free_[static_cast<size_t>(cls)].empty()) {
      data = free_[static_cast<size_t>(cls)].back().data;
      free_[static_cast<size_t>(cls)].pop_back();
      free_bytes_ -= size;
    }
  }
  if (data == nullptr) {
    try {
      data = DeviceAPI::Get(Cpu())->AllocDataSpace(Cpu(), static_cast<size_t>(size), kTensorAlignment);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      in_use_ -= size;
      throw;
    }
  }
  return std::shared_ptr<void>(data, [pool = shared_from_this(), cls](void* p) { pool->Release(p, cls); });
}

void* TensorPool::Oldest() {
  size_t oldest = kClasses;
  for (size_t c = 0; c < free_.size(); ++c) {
    if (free_[c].empty()) continue;
    if (oldest == kClasses || free_[c].front().released < free_[oldest].front().released) oldest = c;
  }
  void* data = free_[oldest].front().data;
  free_[oldest].pop_front();
  free_bytes_ -= ClassBytes(static_cast<int>(oldest));
  return data;
}

void TensorPool::Release(void* data, int cls) {
  std::vector<void*> release;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    int64_t size = ClassBytes(cls);
    in_use_ -= size;
    free_bytes_ += size;
    free_[static_cast<size_t>(cls)].push_back({data, released_++});
    const int64_t limit = std::max(kMinFree, most_in_use_) - in_use_;
    while (free_bytes_ > limit) release.push_back(Oldest());
  }
  for (void* p : release) DeviceAPI::Get(Cpu())->FreeDataSpace(Cpu(), p);
}

TensorPool::~TensorPool() {
  for (const std::deque<Free>& blocks : free_) {
    for (const Free& block : blocks) DeviceAPI::Get(Cpu())->FreeDataSpace(Cpu(), block.data);
  }
}

int64_t TensorPool::bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return in_use_ + free_bytes_;
}

}  // namespace treadle::runtime::vm
