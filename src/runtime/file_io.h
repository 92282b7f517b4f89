// SPDX-License-Identifier: Apache-2.0
// Whole files: reading, mapping, and writing so that a reader never sees half of one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/unfinished.h"

namespace treadle::runtime {

/// The bytes of a regular file. Throws ModelFormatError, naming the file and the system's reason.
std::string ReadFile(const std::string& path);

/// What an output is, and so what it may replace.
enum class FileKind {
  kAny,      ///< any regular file
  kLibrary,  ///< a shared library or object (ELF)
  kArchive,  ///< a tar archive
  kNpy,
  kNpz,
  kText,  ///< without bytes of 0
};

/// Refuses (Error) a `path` that an output must not replace: a folder, a device, a pipe, a socket, one of `inputs` (the
/// same file under whatever name), a file of another kind. Also where its folder isn't there, or the user may not put
/// files into it or replace this one.
void CheckOutputPath(const std::string& path, FileKind kind = FileKind::kAny,
                     const std::vector<std::string>& inputs = {});
/// Refuses (Error) a folder that files can't be put into: what stands at `path`, or the nearest folder above it that is
/// there, in which it would be made.
void CheckOutputFolder(const std::string& path);

/// A file that is written beside its final name and gets it when it is whole. Without Commit nothing is left.
class OutputFile {
 public:
  /// As CheckOutputPath. Where `path` is a symbolic link, the file that it names is replaced.
  explicit OutputFile(const std::string& path, FileKind kind = FileKind::kAny);
  const std::string& path() const { return path_; }
  int fd() const { return file_.fd(); }
  /// Where the bytes are until Commit.
  const std::string& temporary() const { return file_.path(); }
  /// Throws RuntimeError naming the path: no space, quota, ...
  void Write(std::string_view bytes);
  /// Waits until the bytes are on the disk, then replaces what stood at the path.
  void Commit();
  [[noreturn]] void Fail(int error) const;

 private:
  std::string path_;
  Unfinished file_;
};

/// Writes a file whole or not at all. Throws Error, RuntimeError.
void WriteFile(const std::string& path, std::string_view bytes, FileKind kind = FileKind::kAny);

/// Writes all bytes to a descriptor; false with errno where that fails.
bool WriteAll(int fd, std::string_view bytes);

/// Appends to a file. Throws RuntimeError.
void AppendFile(const std::string& path, std::string_view bytes);

/// Closes what it holds; negative: nothing.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  /// Closes it now; false with errno where the system reports that bytes were lost.
  bool Close();

 private:
  int fd_;
};

/// A regular file mapped for reading.
class MappedFile {
 public:
  /// Throws ModelFormatError, naming the file and the system's reason.
  explicit MappedFile(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return {static_cast<const char*>(data_.get()), size_}; }

 private:
  std::shared_ptr<const void> data_;
  size_t size_ = 0;
};

}  // namespace treadle::runtime
