// SPDX-License-Identifier: Apache-2.0
// Whole files: reading, mapping, and writing so that a reader never sees half of one.
#pragma once

#include <string>
#include <string_view>

namespace treadle::runtime {

/// The bytes of a regular file. Throws ModelFormatError, naming the file and the system's reason.
std::string ReadFile(const std::string& path);
/// Writes to a temporary file beside `path` and renames it. Throws RuntimeError.
void WriteFile(const std::string& path, std::string_view bytes);

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

 private:
  int fd_;
};

/// A regular file mapped for reading.
class MappedFile {
 public:
  /// Throws ModelFormatError, naming the file and the system's reason.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace treadle::runtime
