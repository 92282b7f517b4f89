// SPDX-License-Identifier: Apache-2.0
// The lock tells the living from the dead: the kernel drops it with the process, whatever ended that.
#include "runtime/unfinished.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <new>
#include <set>

#include "runtime/file_io.h"
#include "treadle/base/error.h"

namespace treadle::runtime {

/// An entry of the list that signal handlers walk.
struct Slot {
  std::atomic<pid_t> owner{0};  ///< 0: free; -1: being filled
  bool folder = false;
  char path[1016] = {};
};

namespace {

constexpr size_t kSlots = 128;  // what doesn't fit is left to the next process
Slot slots[kSlots];

std::string RandomLetters() {
  constexpr char kLetters[] = "0123456789abcdefghijklmnopqrstuv";
  unsigned char bytes[12] = {};
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) {
    throw RuntimeError("can't make a temporary name: the system gives no random numbers");
  }
  std::string letters;
  for (unsigned char byte : bytes) letters += kLetters[byte % 32];
  return letters;
}

/// The entries of an open folder, by way of the system call: what readdir allocates isn't for signal handlers.
void EmptyFolder(int fd) noexcept {
  struct Entry {
    ino64_t inode;
    off64_t next;
    uint16_t bytes;
    uint8_t type;
    char name[1];
  };
  alignas(8) char buffer[4096];
  for (;;) {
    const long got = syscall(SYS_getdents64, fd, buffer, sizeof(buffer));
    if (got <= 0) return;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const Entry*>(buffer + at);
      unlinkat(fd, entry->name, 0);
      at += entry->bytes;
    }
  }
}

void RemoveFolder(const char* path) noexcept {
  const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0) {
    EmptyFolder(fd);
    close(fd);
  }
  rmdir(path);
}

/// Removes the file or folder at `path` where it is this user's and no process has it under construction.
void RemoveAbandoned(const std::string& path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info{};
  if (fd.get() < 0 || fstat(fd.get(), &info) != 0 || info.st_uid != geteuid()) return;
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return;
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return;  // held while it is removed
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace

Unfinished::Unfinished(const std::string& folder, Kind kind, const std::string& extension) : kind_(kind) {
  SweepUnfinished(folder);
  const std::string start = folder + (kind == Kind::kFile ? "/." : "/") + kTemporaryPrefix;
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (TryMake(start + RandomLetters() + extension)) return;
  }
  throw RuntimeError(StrCat("can't make a temporary file in '", folder, "': ", std::strerror(errno)));
}

bool Unfinished::TryMake(const std::string& path) {
  path_ = path;
  Register();  // first, so that no signal finds it without a name
  const bool file = kind_ == Kind::kFile;
  if (file || mkdir(path.c_str(), 0700) == 0) {
    const int flags = file ? O_RDWR | O_CREAT | O_EXCL : O_RDONLY | O_DIRECTORY;
    fd_ = open(path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  const int reason = errno;
  if (fd_ < 0) {
    Release();
    if (reason == EEXIST || (reason == ENOENT && !file)) return false;
    throw RuntimeError(StrCat("can't make a temporary ", file ? "file" : "folder", " in '",
                              path.substr(0, path.rfind('/')), "': ", std::strerror(reason)));
  }
  // A sweep of another process may be quicker than the lock; then there is nothing at the path any more.
  const bool swept = flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  struct stat info{};
  if (!swept && stat(path.c_str(), &info) == 0) return true;
  close(fd_);
  fd_ = -1;
  Release();
  return false;
}

void Unfinished::Register() {
  for (Slot& slot : slots) {
    pid_t free = 0;
    if (path_.size() >= sizeof(slot.path) || !slot.owner.compare_exchange_strong(free, -1)) continue;
    slot.folder = kind_ == Kind::kFolder;
    std::memcpy(slot.path, path_.c_str(), path_.size() + 1);
    slot.owner.store(getpid());
    slot_ = &slot;
    return;
  }
}

void Unfinished::Release() {
  if (slot_ != nullptr) slot_->owner.store(0);
  slot_ = nullptr;
  path_.clear();
}

Unfinished::~Unfinished() {
  if (!path_.empty()) {
    if (kind_ == Kind::kFile) {
      unlink(path_.c_str());
    } else {
      try {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
      } catch (const std::bad_alloc&) {
        RemoveFolder(path_.c_str());  // needs none; what is in folders of it stays
      }
    }
  }
  Release();
  if (fd_ >= 0) close(fd_);
}

void RemoveUnfinished() noexcept {
  for (Slot& slot : slots) {
    if (slot.owner.load() != getpid()) continue;
    if (slot.folder) {
      RemoveFolder(slot.path);
    } else {
      unlink(slot.path);
    }
  }
}

void SweepUnfinished(const std::string& folder) {
  static std::mutex mutex;
  static auto* seen = new std::set<std::string>();
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!seen->insert(folder).second) return;
  }
  const std::string prefix = kTemporaryPrefix;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool ours = name.starts_with(prefix) || (name.starts_with('.') && name.substr(1).starts_with(prefix));
    if (ours) RemoveAbandoned(it->path().string());
  }
}

namespace {
std::string TemporaryBase() {
  const char* base = std::getenv("TMPDIR");
  return base != nullptr && *base != 0 ? base : "/tmp";
}
}  // namespace

bool LiesInTemporary(const std::string& path) { return path.starts_with(TemporaryBase() + "/"); }

TemporaryDirectory::TemporaryDirectory() : folder_(TemporaryBase(), Unfinished::Kind::kFolder) {}

std::string TemporaryDirectory::Write(const std::string& name, std::string_view bytes) const {
  const std::string path = Path(name);
  FileDescriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (fd.get() < 0 || !WriteAll(fd.get(), bytes)) {
    throw RuntimeError(StrCat("can't write ", path, ": ", std::strerror(errno)));
  }
  return path;
}

}  // namespace treadle::runtime
