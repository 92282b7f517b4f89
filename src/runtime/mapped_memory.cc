// SPDX-License-Identifier: Apache-2.0
#include "runtime/mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "treadle/base/int_math.h"

namespace treadle::runtime {
namespace {

/// The mappings that live: begin -> end.
struct Mappings {
  std::mutex mutex;
  std::map<uintptr_t, uintptr_t> ranges;

  static Mappings& Global() {
    static auto* mappings = new Mappings();
    return *mappings;
  }
};

}  // namespace

std::shared_ptr<const void> MapReadOnly(int fd, size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  std::shared_ptr<const void> owner(address, [bytes](const void* p) {
    Mappings& mappings = Mappings::Global();
    std::lock_guard<std::mutex> lock(mappings.mutex);
    mappings.ranges.erase(reinterpret_cast<uintptr_t>(p));
    munmap(const_cast<void*>(p), bytes);
  });
  Mappings& mappings = Mappings::Global();
  std::lock_guard<std::mutex> lock(mappings.mutex);
  mappings.ranges[begin] = begin + bytes;
  return owner;
}

void ReleasePages(const void* data, size_t bytes) {
  constexpr size_t kWorthwhile = size_t{1} << 20;
  if (bytes < kWorthwhile) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = RoundUp(reinterpret_cast<uintptr_t>(data), page);
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  Mappings& mappings = Mappings::Global();
  std::lock_guard<std::mutex> lock(mappings.mutex);  // nobody unmaps it meanwhile
  auto it = mappings.ranges.upper_bound(begin);
  if (it == mappings.ranges.begin() || (--it)->second < end) return;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace treadle::runtime
