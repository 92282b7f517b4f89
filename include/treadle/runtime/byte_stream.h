// SPDX-License-Identifier: Apache-2.0
// Little-endian binary writing, and reading that never leaves the buffer.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "treadle/base/error.h"
#include "treadle/base/int_math.h"

namespace treadle::runtime {

/// Appends values to a string.
class ByteWriter {
 public:
  template <typename T>
  void Write(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    WriteRaw(&value, sizeof(T));
  }
  void WriteRaw(const void* data, size_t bytes) { bytes_.append(static_cast<const char*>(data), bytes); }
  /// u64 length, then the bytes.
  void WriteString(std::string_view text) {
    Write<uint64_t>(text.size());
    WriteRaw(text.data(), text.size());
  }
  void WriteU64s(const std::vector<uint64_t>& values) {
    Write<uint64_t>(values.size());
    WriteRaw(values.data(), values.size() * sizeof(uint64_t));
  }
  /// Appends zeros until the size is a multiple of `alignment`.
  void Align(size_t alignment) { bytes_.resize(RoundUp(bytes_.size(), alignment), '\0'); }
  size_t size() const { return bytes_.size(); }
  void Reserve(size_t bytes) { bytes_.reserve(bytes); }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

/// Reads what ByteWriter wrote. Running out of bytes is a ModelFormatError that names `what` and the offset.
class ByteReader {
 public:
  /// `what` is named in errors, such as "params file x.params".
  ByteReader(std::string_view bytes, std::string what) : bytes_(bytes), what_(std::move(what)) {}

  template <typename T>
  T Read() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, Take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  /// The next `count` bytes, in place.
  std::string_view Take(uint64_t count) {
    if (count > remaining()) {
      Fail(StrCat("truncated: ", count, " bytes wanted at offset ", position_, " but only ", remaining(), " are left"));
    }
    std::string_view taken = bytes_.substr(position_, count);
    position_ += count;
    return taken;
  }
  std::string_view ReadString() { return Take(Read<uint64_t>()); }
  /// A count of things that take at least `min_bytes` each; refuses what can't fit in the rest.
  uint64_t ReadCount(uint64_t min_bytes) {
    uint64_t count = Read<uint64_t>();
    if (count > remaining() / min_bytes) Fail(StrCat("count ", count, " at offset ", position_ - 8, " is too large"));
    return count;
  }
  std::vector<uint64_t> ReadU64s() {
    uint64_t count = ReadCount(sizeof(uint64_t));
    std::vector<uint64_t> values(count);
    std::string_view raw = Take(count * sizeof(uint64_t));
    if (count != 0) std::memcpy(values.data(), raw.data(), raw.size());
    return values;
  }
  size_t remaining() const { return bytes_.size() - position_; }
  size_t position() const { return position_; }
  const std::string& what() const { return what_; }
  [[noreturn]] void Fail(const std::string& problem) const { throw ModelFormatError(StrCat(what_, ": ", problem)); }
  /// Refuses bytes after the end.
  void ExpectEnd() const {
    if (remaining() != 0) Fail(StrCat(remaining(), " unexpected bytes after the end, at offset ", position_));
  }

 private:
  std::string_view bytes_;
  size_t position_ = 0;
  std::string what_;
};

}  // namespace treadle::runtime
