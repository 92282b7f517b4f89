// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/cpu_topology.h"
#include "runtime/guarded_memory.h"
#include "treadle/base/error.h"
#include "treadle/base/int_math.h"
#include "treadle/runtime/limits.h"

namespace treadle::runtime {
namespace {

int64_t DefaultMaxTensorBytes() {
  if (const char* text = std::getenv("TREADLE_MAX_TENSOR_BYTES"); text != nullptr && *text != 0) {
    const auto bytes = ParseInt(text);
    if (!bytes || *bytes < 1) throw Error(StrCat("TREADLE_MAX_TENSOR_BYTES=", text, ": expected a number of bytes"));
    return *bytes;
  }
  return MachineMemory();
}

/// Above this, buffers start on a 2 MiB boundary and ask for huge pages.
constexpr size_t kHugeThreshold = size_t{4} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

std::atomic<int64_t>& Limit() {
  static std::atomic<int64_t> limit = DefaultMaxTensorBytes();
  return limit;
}

/// Asking for more than there is ends in a killed process, long after the request was granted.
void CheckLimit(size_t bytes) {
  const int64_t limit = Limit().load(std::memory_order_relaxed);
  if (bytes <= static_cast<size_t>(limit)) return;
  throw RuntimeError(StrCat("a buffer of ", bytes, " bytes was asked for; the limit is ", limit,
                            " (this machine's memory, unless --max-tensor-bytes or TREADLE_MAX_TENSOR_BYTES says)"));
}

void* AllocAligned(size_t bytes, size_t alignment) {
  CheckLimit(bytes);
  if (GuardsMemory()) {
    if (void* data = AllocGuarded(bytes, alignment)) return data;
    throw RuntimeError(StrCat("out of memory: can't allocate ", bytes, " bytes on cpu"));
  }
  if (bytes >= kHugeThreshold) alignment = std::max(alignment, kHugePage);
  void* data = nullptr;
  if (bytes > static_cast<size_t>(PTRDIFF_MAX) - alignment ||
      posix_memalign(&data, alignment, std::max<size_t>(bytes, 1)) != 0) {
    throw RuntimeError(StrCat("out of memory: can't allocate ", bytes, " bytes on cpu"));
  }
  if (bytes >= kHugeThreshold) madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return data;
}

void Free(void* data) { GuardsMemory() ? FreeGuarded(data) : std::free(data); }

/// Scratch buffers of one thread. Kernels free in reverse order, so few buffers exist; they are kept for reuse.
class WorkspacePool {
 public:
  ~WorkspacePool() {
    for (const Block& block : free_) runtime::Free(block.data);
    for (const Block& block : used_) runtime::Free(block.data);
  }

  void* Alloc(size_t bytes) {
    CheckLimit(bytes);  // also keeps the next line from wrapping around
    if (GuardsMemory()) {
      used_.push_back({AllocAligned(bytes, kAllocAlignment), bytes});
      return used_.back().data;
    }
    bytes = RoundUp(std::max<size_t>(bytes, 1), kGranule);
    // free_ is sorted by size: the smallest block that is large enough.
    auto fit =
        std::lower_bound(free_.begin(), free_.end(), bytes, [](const Block& b, size_t n) { return b.bytes < n; });
    Block block;
    if (fit != free_.end()) {
      block = *fit;
      free_.erase(fit);
    } else {
      if (!free_.empty()) {
        // Too small for this request, so likely for the next: grow it instead of keeping both.
        total_ -= free_.back().bytes;
        runtime::Free(free_.back().data);
        free_.pop_back();
      }
      block = {AllocAligned(bytes, kAllocAlignment), bytes};
      total_ += bytes;
    }
    used_.push_back(block);
    return block.data;
  }

  bool Free(void* data) {
    for (size_t i = used_.size(); i-- > 0;) {
      if (used_[i].data != data) continue;
      Block block = used_[i];
      used_.erase(used_.begin() + static_cast<ptrdiff_t>(i));
      if (GuardsMemory()) {
        FreeGuarded(data);
        return true;
      }
      auto at = std::lower_bound(free_.begin(), free_.end(), block.bytes,
                                 [](const Block& b, size_t n) { return b.bytes < n; });
      free_.insert(at, block);
      return true;
    }
    return false;
  }

  void Release() {
    for (const Block& block : free_) {
      total_ -= block.bytes;
      runtime::Free(block.data);
    }
    free_.clear();
  }
  size_t total() const { return total_; }

  static WorkspacePool& Local() {
    thread_local WorkspacePool pool;
    return pool;
  }

 private:
  static constexpr size_t kGranule = 4096;
  struct Block {
    void* data;
    size_t bytes;
  };
  std::vector<Block> free_, used_;
  size_t total_ = 0;
};

class CpuDevice final : public DeviceAPI {
 public:
  DeviceAttrValue GetAttr(Device device, DeviceAttr attr) override {
    switch (attr) {
      case DeviceAttr::kExist:
        return static_cast<int64_t>(device.device_id == 0);
      case DeviceAttr::kDeviceName:
        return std::string("cpu");
      case DeviceAttr::kWarpSize:
        return int64_t{1};
      case DeviceAttr::kMultiProcessorCount:
        return static_cast<int64_t>(std::thread::hardware_concurrency());
      case DeviceAttr::kTotalMemory:
        return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
      default:
        return std::monostate();
    }
  }
  void SetDevice(Device) override {}
  void* AllocDataSpace(Device, size_t bytes, size_t alignment) override { return AllocAligned(bytes, alignment); }
  void FreeDataSpace(Device, void* data) override { Free(data); }
  void CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset, size_t bytes, Device, Device,
                      StreamHandle) override {
    if (bytes == 0) return;
    std::memmove(static_cast<char*>(to) + to_offset, static_cast<const char*>(from) + from_offset, bytes);
  }
  void StreamSync(Device, StreamHandle) override {}
  void* AllocWorkspace(Device, size_t bytes) override { return WorkspacePool::Local().Alloc(bytes); }
  void FreeWorkspace(Device, void* data) override {
    if (!WorkspacePool::Local().Free(data)) {
      throw RuntimeError("a workspace was freed that this thread hasn't allocated");
    }
  }
};

}  // namespace

DeviceAPI* CpuDeviceAPI() {
  static auto* device = new CpuDevice();  // never destroyed: tensors in statics may outlive it
  return device;
}

int64_t MaxTensorBytes() { return Limit().load(std::memory_order_relaxed); }
void SetMaxTensorBytes(int64_t bytes) {
  if (bytes < 0) throw Error(StrCat("the limit of a tensor's bytes must not be negative, got ", bytes));
  Limit().store(bytes == 0 ? DefaultMaxTensorBytes() : bytes, std::memory_order_relaxed);
}

size_t CpuWorkspaceBytes() { return WorkspacePool::Local().total(); }
void ReleaseCpuWorkspace() { WorkspacePool::Local().Release(); }

}  // namespace treadle::runtime
