// SPDX-License-Identifier: Apache-2.0
#include "runtime/file_io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

[[noreturn]] void FailRead(const std::string& path, const std::string& reason) {
  throw ModelFormatError(StrCat("can't read ", path, ": ", reason));
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

MappedFile::MappedFile(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) FailRead(path, std::strerror(errno));
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) FailRead(path, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) FailRead(path, "it is a directory");
  if (!S_ISREG(info.st_mode)) FailRead(path, "it isn't a regular file");
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    FailRead(path, std::strerror(errno));
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

std::string ReadFile(const std::string& path) { return std::string(MappedFile(path).bytes()); }

namespace {

/// Whether all was written.
bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

void AppendFile(const std::string& path, std::string_view bytes) {
  FileDescriptor fd(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (fd.get() < 0 || !WriteAll(fd.get(), bytes)) {
    throw RuntimeError(StrCat("can't write ", path, ": ", std::strerror(errno)));
  }
}

void WriteFile(const std::string& path, std::string_view bytes) {
  std::string temporary = StrCat(path, ".tmp.", getpid());
  auto fail = [&](const char* what) {
    std::string reason = std::strerror(errno);
    unlink(temporary.c_str());
    throw RuntimeError(StrCat("can't ", what, " ", path, ": ", reason));
  };
  {
    FileDescriptor fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (fd.get() < 0) fail("create");
    if (!WriteAll(fd.get(), bytes)) fail("write");
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) fail("write");
}

}  // namespace treadle::runtime
