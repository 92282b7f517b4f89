// SPDX-License-Identifier: Apache-2.0
#include "runtime/file_backed.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "runtime/cpu_topology.h"
#include "runtime/file_io.h"
#include "runtime/mapped_memory.h"

namespace treadle::runtime {
namespace {

/// Whether files in the folder are on a disk that has room for twice as many bytes.
bool HasRoom(const std::string& folder, size_t bytes) {
  struct statfs info;
  if (statfs(folder.c_str(), &info) != 0) return false;
  if (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC) return false;
  const uint64_t room = static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize);
  return room / 2 >= bytes;
}

/// A new file without a name; -1 where there is no place for it.
int OpenNameless(size_t bytes) {
  const char* chosen = std::getenv("TMPDIR");
  for (const std::string& folder :
       {std::string(chosen != nullptr ? chosen : ""), std::string("/tmp"), std::string("/var/tmp")}) {
    if (folder.empty() || !HasRoom(folder, bytes)) continue;
    const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
  }
  return -1;
}

bool WriteWhole(int fd, const char* data, size_t bytes) {
  constexpr size_t kStep = size_t{64} << 20;
  while (bytes > 0) {
    const ssize_t written = write(fd, data, std::min(bytes, kStep));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

/// The number behind `name` in a file of "name: number unit" lines, times 1024; -1 where there is none.
int64_t ReadKilobytes(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    int64_t number = 0;
    if (word == name && file >> number) return number * 1024;
  }
  return -1;
}

}  // namespace

std::shared_ptr<const void> CopyToFile(const void* data, size_t bytes) {
  if (bytes < kLeastFileBacked) return nullptr;
  const FileDescriptor fd(OpenNameless(bytes));
  if (fd.get() < 0 || !WriteWhole(fd.get(), static_cast<const char*>(data), bytes)) return nullptr;
  return MapReadOnly(fd.get(), bytes);
}

NDArray ToFile(const NDArray& array) {
  if (!array.IsCompact() || array.device().device_type != Cpu().device_type) return array;
  auto owner = CopyToFile(array.data_ptr(), static_cast<size_t>(array.nbytes()));
  if (owner == nullptr) return array;
  return NDArray::View(const_cast<void*>(owner.get()), array.shape(), array.dtype(), Cpu(),
                       std::const_pointer_cast<void>(owner), /*read_only=*/true);
}

bool MemoryIsShort(const std::string& root) {
  int64_t machine = MachineMemory(root);
  rlimit data{};
  const bool limited = getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY;
  if (limited) machine = static_cast<int64_t>(std::min<uint64_t>(static_cast<uint64_t>(machine), data.rlim_cur));
  const int64_t own = ReadKilobytes(root + "/proc/self/status", "RssAnon:");
  const int64_t available = ReadKilobytes(root + "/proc/meminfo", "MemAvailable:");
  return own > machine / 2 || (available >= 0 && available < machine / 8);
}

}  // namespace treadle::runtime
