// SPDX-License-Identifier: Apache-2.0
#include "runtime/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "treadle/base/int_math.h"

namespace treadle::runtime {
namespace {

struct Mapping {
  void* begin;
  size_t bytes;
};

std::mutex& Mutex() {
  static auto* mutex = new std::mutex();
  return *mutex;
}
/// Never destroyed: tensors in statics may outlive it.
std::unordered_map<void*, Mapping>& Mappings() {
  static auto* mappings = new std::unordered_map<void*, Mapping>();
  return *mappings;
}

}  // namespace

bool GuardsMemory() {
  static const bool guards = [] {
    const char* text = std::getenv("TREADLE_GUARD_MEMORY");
    return text != nullptr && std::string_view(text) == "1";
  }();
  return guards;
}

void* AllocGuarded(size_t bytes, size_t alignment) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t body = RoundUp(RoundUp(std::max<size_t>(bytes, 1), alignment), page);
  const size_t total = body + 2 * page;
  void* begin = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return nullptr;
  char* first = static_cast<char*>(begin) + page;
  if (mprotect(first, body, PROT_READ | PROT_WRITE) != 0) {
    munmap(begin, total);
    return nullptr;
  }
  constexpr int kNaN = 0xff;  // in every floating-point format
  if (body < (size_t{1} << 28)) std::memset(first, kNaN, body);
  void* data = first + (body - bytes) / alignment * alignment;
  const std::lock_guard<std::mutex> lock(Mutex());
  Mappings()[data] = {begin, total};
  return data;
}

void FreeGuarded(void* data) {
  if (data == nullptr) return;
  const std::lock_guard<std::mutex> lock(Mutex());
  const auto it = Mappings().find(data);
  munmap(it->second.begin, it->second.bytes);
  Mappings().erase(it);
}

}  // namespace treadle::runtime
