// SPDX-License-Identifier: Apache-2.0
#include "runtime/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/mapped_memory.h"
#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

/// Which Python's users catch by the name of its own.
class MissingFile : public Error {
 public:
  using Error::Error;
  const char* kind() const override { return "FileNotFoundError"; }
};

[[noreturn]] void FailRead(const std::string& path, const std::string& reason) {
  throw ModelFormatError(StrCat("can't read ", path, ": ", reason));
}

/// Says nothing of the file's form.
[[noreturn]] void FailOpen(const std::string& path, int error) {
  const std::string message = StrCat("can't read ", path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) throw MissingFile(message);
  if (error == EACCES || error == EPERM) throw Error(message);
  throw ModelFormatError(message);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

bool FileDescriptor::Close() { return close(std::exchange(fd_, -1)) == 0; }

MappedFile::MappedFile(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) FailOpen(path, errno);
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) FailRead(path, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) FailRead(path, "it is a directory");
  if (!S_ISREG(info.st_mode)) FailRead(path, "it isn't a regular file");
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  data_ = MapReadOnly(fd.get(), size_);
  if (data_ == nullptr) FailRead(path, std::strerror(errno));
}

std::string ReadFile(const std::string& path) { return std::string(MappedFile(path).bytes()); }

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void AppendFile(const std::string& path, std::string_view bytes) {
  FileDescriptor fd(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (fd.get() < 0 || !WriteAll(fd.get(), bytes) || !fd.Close()) {
    throw RuntimeError(StrCat("can't write ", path, ": ", std::strerror(errno)));
  }
}

namespace {

/// How files of a kind begin.
struct Signature {
  FileKind kind;
  const char* name;
  size_t offset;
  std::string_view bytes;
};

constexpr Signature kSignatures[] = {
    {FileKind::kLibrary, "a shared library", 0,
     "\x7f"
     "ELF"},
    {FileKind::kArchive, "a tar archive", 257, "ustar"},
    {FileKind::kNpy, "a .npy file", 0, "\x93NUMPY"},
    {FileKind::kNpz, "an .npz file", 0, "PK"},
};

/// What an existing file should be and isn't; null where it may be replaced. An empty file always may.
const char* WhyForeign(const std::string& path, FileKind kind, off_t size) {
  if (kind == FileKind::kText && size > 0) {
    FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) return nullptr;
    std::string start(size_t{1} << 12, 0);
    const ssize_t got = pread(fd.get(), start.data(), start.size(), 0);
    return got > 0 && start.substr(0, static_cast<size_t>(got)).find('\0') != std::string::npos ? "text" : nullptr;
  }
  for (const Signature& signature : kSignatures) {
    if (signature.kind != kind || size == 0) continue;
    FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) return nullptr;  // can't be read: whether it can be replaced is the system's to say
    std::string start(signature.bytes.size(), 0);
    const ssize_t got = pread(fd.get(), start.data(), start.size(), static_cast<off_t>(signature.offset));
    const bool same = got == static_cast<ssize_t>(start.size()) && start == signature.bytes;
    return same ? nullptr : signature.name;
  }
  return nullptr;
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// The file that a path names by way of symbolic links.
std::string Resolved(const std::string& path) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) {
    throw Error(StrCat("can't write '", path, "': it is a symbolic link to a file that isn't there"));
  }
  std::string resolved = real;
  std::free(real);
  return resolved;
}

/// Why a file of that name can't be put into its folder, in place of `existing` (its status, or null); "" where it can.
std::string WhyNotInFolder(const std::string& path, const struct stat* existing) {
  const std::string folder = FolderOf(path);
  struct stat info{};
  if (stat(folder.c_str(), &info) != 0) return StrCat("there is no folder '", folder, "'");
  if (!S_ISDIR(info.st_mode)) return StrCat("'", folder, "' isn't a folder");
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return StrCat("can't create files in the folder '", folder, "': ", std::strerror(errno));
  }
  const uid_t user = geteuid();
  const bool owners_only = (info.st_mode & S_ISVTX) != 0 && user != 0 && user != info.st_uid;
  if (existing == nullptr || !owners_only || user == existing->st_uid) return "";
  return StrCat("the file is another user's, and in the folder '", folder, "' only owners may replace files");
}

}  // namespace

void CheckOutputFolder(const std::string& path) {
  std::string folder = path.empty() ? "." : path;
  struct stat info{};
  while (stat(folder.c_str(), &info) != 0 && errno == ENOENT && folder != FolderOf(folder)) folder = FolderOf(folder);
  if (stat(folder.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    throw Error(
        StrCat("can't write to '", path, "': ", folder == path ? "it" : StrCat("'", folder, "'"), " isn't a folder"));
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    const int reason = errno;
    throw Error(StrCat("can't write to '", path,
                       "': ", folder == path ? "" : StrCat("can't create files in the folder '", folder, "': "),
                       std::strerror(reason)));
  }
}

void CheckOutputPath(const std::string& path, FileKind kind, const std::vector<std::string>& inputs) {
  auto refuse = [&path](const std::string& reason) { throw Error(StrCat("can't write '", path, "': ", reason)); };
  if (path.empty()) refuse("the path is empty");
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) {
    const int reason = errno;
    if (reason != ENOENT && reason != ENOTDIR) refuse(std::strerror(reason));
    if (const std::string why = WhyNotInFolder(path, nullptr); !why.empty()) refuse(why);
    return;
  }
  if (S_ISDIR(info.st_mode)) refuse("it is a directory");
  if (!S_ISREG(info.st_mode)) refuse("it is a device, pipe or socket, not a regular file");
  for (const std::string& input : inputs) {
    struct stat other{};
    if (stat(input.c_str(), &other) != 0) continue;
    if (info.st_dev == other.st_dev && info.st_ino == other.st_ino) refuse(StrCat("it is the input '", input, "'"));
  }
  if (const char* expected = WhyForeign(path, kind, info.st_size)) {
    refuse(StrCat("there is a file that isn't ", expected, "; remove it first, or choose another name"));
  }
  if (const std::string why = WhyNotInFolder(Resolved(path), &info); !why.empty()) refuse(why);
}

OutputFile::OutputFile(const std::string& path, FileKind kind)
    : path_((CheckOutputPath(path, kind), Resolved(path))), file_(FolderOf(path_), Unfinished::Kind::kFile) {}

void OutputFile::Fail(int error) const {
  throw RuntimeError(StrCat("can't write '", path_, "': ", std::strerror(error)));
}

void OutputFile::Write(std::string_view bytes) {
  if (!WriteAll(fd(), bytes)) Fail(errno);
}

void OutputFile::Commit() {
  // Errors of delayed writing (quotas, network file systems) come with this.
  if (!LiesInTemporary(path_) && fsync(fd()) != 0 && errno != EINVAL && errno != EROFS) Fail(errno);
  if (rename(temporary().c_str(), path_.c_str()) != 0) Fail(errno);
  file_.Release();
}

void WriteFile(const std::string& path, std::string_view bytes, FileKind kind) {
  OutputFile file(path, kind);
  file.Write(bytes);
  file.Commit();
}

}  // namespace treadle::runtime
