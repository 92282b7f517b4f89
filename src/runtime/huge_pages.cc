// SPDX-License-Identifier: Apache-2.0
#include "runtime/huge_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "runtime/file_io.h"

namespace treadle::runtime {

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

}  // namespace

void MoveToHugePages(const void* data, size_t bytes) {
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  constexpr size_t kLeast = size_t{8} << 20;  // less stays in caches between runs
  const auto begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  if (bytes < kLeast || end <= begin || !SystemHasHugePages()) return;
  const size_t reserved = end - begin + kPage;
  void* area = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return;
  const auto start = reinterpret_cast<uintptr_t>(area), aligned = (start + kPage - 1) / kPage * kPage;
  uintptr_t moved = begin;
  if (madvise(area, reserved, MADV_HUGEPAGE) == 0) {
    // One at a time: no more memory is in use than before.
    for (; moved < end; moved += kPage) {
      auto* copy = reinterpret_cast<void*>(aligned + (moved - begin));
      auto* place = reinterpret_cast<void*>(moved);
      std::memcpy(copy, place, kPage);
      if (mprotect(copy, kPage, PROT_READ) != 0) break;
      if (mremap(copy, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, place) != MAP_FAILED) continue;
      // What was in the place may be gone already.
      void* again = mmap(place, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      if (again != MAP_FAILED) std::memcpy(again, copy, kPage);
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
