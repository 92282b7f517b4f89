// SPDX-License-Identifier: Apache-2.0
#include "runtime/huge_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "runtime/file_io.h"
#include "treadle/base/error.h"
#include "treadle/base/int_math.h"
#include "treadle/runtime/limits.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace treadle::runtime {
namespace {

std::atomic<HugePages>& Mode() {
  static std::atomic<HugePages> mode = [] {
    const char* text = std::getenv("TREADLE_HUGE_PAGES");
    return text == nullptr || *text == 0 ? HugePages::kAuto : ParseHugePages(text);
  }();
  return mode;
}

}  // namespace

HugePages ParseHugePages(const std::string& text) {
  if (text == "auto") return HugePages::kAuto;
  if (text == "on") return HugePages::kOn;
  if (text == "off") return HugePages::kOff;
  throw Error(StrCat("huge pages: \"", text, "\" isn't auto, on or off"));
}
HugePages GetHugePages() { return Mode().load(std::memory_order_relaxed); }
void SetHugePages(HugePages mode) { Mode().store(mode, std::memory_order_relaxed); }

#if defined(__linux__) && defined(MADV_HUGEPAGE)

namespace {

/// Whether programs get huge pages that they ask for.
bool SystemHasHugePages() {
  FileDescriptor fd(open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return false;
  char text[64];
  const ssize_t bytes = read(fd.get(), text, sizeof(text));
  return bytes > 0 && std::string_view(text, static_cast<size_t>(bytes)).find("[never]") == std::string_view::npos;
}

/// After a move that failed: the place has its bytes still, or nothing at all. Never takes what another thread mapped
/// there in between.
void Restore(void* place, const void* copy, size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  void* again = mmap(place, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (again == place) {
    std::memcpy(again, copy, bytes);
    return;
  }
  if (again != MAP_FAILED) munmap(again, bytes);  // a kernel that doesn't know the flag
  std::string now(bytes, 0);
  iovec local{now.data(), bytes}, remote{place, bytes};
  const bool readable = process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
  if (readable && std::memcmp(now.data(), copy, bytes) == 0) return;
  throw RuntimeError("out of memory while weights were moved to huge pages: they are lost, load the model again");
}

}  // namespace

void MoveToHugePages(const void* data, size_t bytes) {
  const HugePages mode = GetHugePages();
  if (mode == HugePages::kOff) return;
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  const size_t kLeast = mode == HugePages::kOn ? kPage : size_t{8} << 20;  // less stays in caches between runs
  const auto begin = RoundUp(reinterpret_cast<uintptr_t>(data), kPage);
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  if (bytes < kLeast || end <= begin || !SystemHasHugePages()) return;
  const size_t reserved = end - begin + kPage;
  void* area = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return;
  const auto start = reinterpret_cast<uintptr_t>(area), aligned = RoundUp(start, kPage);
  uintptr_t moved = begin;
  if (madvise(area, reserved, MADV_HUGEPAGE) == 0) {
    // One at a time: no more memory is in use than before.
    for (; moved < end; moved += kPage) {
      auto* copy = reinterpret_cast<void*>(aligned + (moved - begin));
      auto* place = reinterpret_cast<void*>(moved);
      std::memcpy(copy, place, kPage);
      if (mprotect(copy, kPage, PROT_READ) != 0) break;
      if (mremap(copy, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, place) != MAP_FAILED) continue;
      Restore(place, copy, kPage);
      break;
    }
  }
  // What has been moved isn't there any more.
  if (aligned > start) munmap(area, aligned - start);
  const uintptr_t rest = aligned + (moved - begin);
  if (rest < start + reserved) munmap(reinterpret_cast<void*>(rest), start + reserved - rest);
}

#else

void MoveToHugePages(const void*, size_t) {}

#endif

}  // namespace treadle::runtime
