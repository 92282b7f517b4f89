// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/mapped_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "frontend/onnx/model.h"
#include "runtime/file_io.h"
#include "runtime/mapped_memory.h"
#include "treadle/base/error.h"

namespace treadle::onnx {
namespace {

using runtime::FileDescriptor;

std::string ErrnoText() { return std::strerror(errno); }

MappedBytes MapDescriptor(int fd, int64_t size, const std::string& what) {
  if (size == 0) return {};
  std::shared_ptr<const void> owner = runtime::MapReadOnly(fd, static_cast<size_t>(size));
  if (owner == nullptr) throw ModelFormatError(StrCat(what, " can't be mapped: ", ErrnoText()));
  return {std::string_view(static_cast<const char*>(owner.get()), static_cast<size_t>(size)), std::move(owner)};
}

/// Size of the regular file behind `fd`; anything else is refused. `what` begins the message.
struct stat CheckRegular(int fd, const std::string& what) {
  struct stat info;
  if (fstat(fd, &info) != 0) throw ModelFormatError(StrCat(what, ": ", ErrnoText()));
  if (S_ISDIR(info.st_mode)) throw ModelFormatError(StrCat(what, ": it is a directory"));
  if (!S_ISREG(info.st_mode)) throw ModelFormatError(StrCat(what, ": it isn't a regular file"));
  return info;
}

/// Opens without side effects (a device or a pipe isn't touched) for CheckRegular, then for reading.
int OpenPath(const std::string& path) { return open(path.c_str(), O_PATH | O_CLOEXEC); }

std::string DescriptorLink(int fd) { return StrCat("/proc/self/fd/", fd); }

int Reopen(int path_fd, const std::string& path) {
  int fd = open(DescriptorLink(path_fd).c_str(), O_RDONLY | O_CLOEXEC);
  // Without /proc: open by name again and compare.
  if (fd < 0 && errno == ENOENT) {
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat a, b;
    if (fd >= 0 && (fstat(fd, &a) != 0 || fstat(path_fd, &b) != 0 || a.st_ino != b.st_ino || a.st_dev != b.st_dev)) {
      close(fd);
      errno = ESTALE;
      return -1;
    }
  }
  return fd;
}

std::string RealPath(const std::string& path) {
  std::unique_ptr<char, decltype(&std::free)> resolved(realpath(path.c_str(), nullptr), &std::free);
  return resolved ? std::string(resolved.get()) : std::string();
}

std::string ParentOf(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool IsInside(const std::string& path, const std::string& directory) {
  if (directory.empty()) return false;
  if (directory == "/") return true;
  return path.size() > directory.size() && path.compare(0, directory.size(), directory) == 0 &&
         path[directory.size()] == '/';
}

/// Whether a relative path leaves its directory at some point, even if it comes back.
bool ClimbsOut(const std::string& location) {
  int depth = 0;
  for (size_t begin = 0; begin <= location.size();) {
    size_t end = std::min(location.find('/', begin), location.size());
    std::string part = location.substr(begin, end - begin);
    if (part == "..") --depth;
    if (part != ".." && part != "." && !part.empty()) ++depth;
    if (depth < 0) return true;
    begin = end + 1;
  }
  return false;
}

/// Real path of an opened file, from the descriptor itself; empty when the system doesn't tell.
std::string PathOfDescriptor(int fd) {
  std::vector<char> buffer(1 << 16);
  ssize_t length = readlink(DescriptorLink(fd).c_str(), buffer.data(), buffer.size());
  if (length <= 0 || static_cast<size_t>(length) == buffer.size()) return "";
  return std::string(buffer.data(), static_cast<size_t>(length));
}

}  // namespace

MappedBytes MapFile(const std::string& path, int64_t max_bytes) {
  FileDescriptor path_fd(OpenPath(path));
  if (path_fd.get() < 0) throw Error(StrCat("can't open ", path, ": ", ErrnoText()));
  const std::string failure = StrCat("can't read ", path);
  struct stat info = CheckRegular(path_fd.get(), failure);
  if (max_bytes > 0 && info.st_size > max_bytes) {
    throw ModelFormatError(StrCat(failure, ": it has ", info.st_size, " bytes; the limit is ", max_bytes,
                                  " (keep large weights as external data)"));
  }
  FileDescriptor fd(Reopen(path_fd.get(), path));
  if (fd.get() < 0) throw ModelFormatError(StrCat("can't open ", path, ": ", ErrnoText()));
  return MapDescriptor(fd.get(), info.st_size, path);
}

const MappedBytes& ExternalFiles::Open(const std::string& location, const std::string& where) {
  auto known = files_.find(location);
  if (known != files_.end()) return known->second;
  std::string what = StrCat(where, ": external data file ", QuoteName(location));
  if (location.empty()) throw ModelFormatError(StrCat(where, ": external data without a location"));
  if (location.find('\0') != std::string::npos) throw ModelFormatError(StrCat(what, " has a NUL in its name"));
  if (location.front() == '/') {
    throw ModelFormatError(StrCat(what, " is an absolute path; it has to be relative to the model's directory"));
  }
  if (ClimbsOut(location)) throw ModelFormatError(StrCat(what, " lies outside the model's directory"));
  if (base_dir_.empty()) {
    throw ModelFormatError(StrCat(what, " can't be found: the model was given as bytes, without a directory"));
  }
  std::string path = StrCat(base_dir_, "/", location);
  FileDescriptor path_fd(OpenPath(path));
  if (path_fd.get() < 0) throw ModelFormatError(StrCat(what, " can't be opened: ", ErrnoText()));
  struct stat info = CheckRegular(path_fd.get(), what);
  std::string real = PathOfDescriptor(path_fd.get());
  std::string model_real = model_path_.empty() ? "" : ParentOf(RealPath(model_path_));
  if (!IsInside(real, RealPath(base_dir_)) && !IsInside(real, model_real)) {
    throw ModelFormatError(StrCat(what, " lies outside the model's directory"));
  }
  if (info.st_nlink > 1) {
    throw ModelFormatError(
        StrCat(what, " has ", info.st_nlink, " hard links, so it may belong to something else; copy it"));
  }
  FileDescriptor fd(Reopen(path_fd.get(), path));
  if (fd.get() < 0) throw ModelFormatError(StrCat(what, " can't be opened: ", ErrnoText()));
  return files_.emplace(location, MapDescriptor(fd.get(), info.st_size, what)).first->second;
}

}  // namespace treadle::onnx
