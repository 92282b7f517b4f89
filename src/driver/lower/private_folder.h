// SPDX-License-Identifier: Apache-2.0
// A folder of files that nobody but this user may write or forge, and in which nothing else is ever touched.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/file_io.h"

namespace treadle::driver {

/// Everything goes through the open folder, so that no symbolic link on the way can lead elsewhere. The folder is the
/// user's own, of mode 0700, with a file CACHEDIR.TAG that says whose it is and a file `key` of mode 0600: random
/// bytes, without which no entry can be authenticated.
class PrivateFolder {
 public:
  using Code = std::array<uint8_t, 32>;
  static constexpr const char* kTag = "CACHEDIR.TAG";
  static constexpr const char* kNote = ".note";  ///< ending of the names of texts beside the entries

  /// The folder at `path`; `make`: made where it isn't there. Nothing where it can't be used, with the reason in `why`
  /// (may be null; empty where it just isn't there).
  static std::optional<PrivateFolder> Open(const std::string& path, bool make, std::string* why);
  PrivateFolder(PrivateFolder&&) = default;

  /// Keyed BLAKE3 over the parts.
  Code Authenticate(const std::vector<std::string_view>& parts) const;
  /// The same over the parts and the contents of a regular file of the user's own; nothing where there is none.
  std::optional<Code> AuthenticateFile(const std::vector<std::string_view>& parts, const std::string& name) const;

  /// Contents of a regular file of the user's own; empty where there is none.
  std::string Read(const std::string& name) const;
  /// Replaces a file; others see it whole or not at all. False where it can't be written.
  bool Write(const std::string& name, std::string_view bytes) const;
  bool Remove(const std::string& name) const;
  void Touch(const std::string& name) const;

  struct Entry {
    std::string name;
    uint64_t bytes;
    int64_t used;  ///< nanoseconds
  };
  /// The regular files.
  std::vector<Entry> List() const;

 private:
  PrivateFolder() = default;
  bool Check(std::string* why);
  bool Adopt(std::string* why);
  bool ReadKey(std::string* why);
  bool MakeKey() const;

  std::unique_ptr<runtime::FileDescriptor> folder_;
  std::array<uint8_t, 32> key_{};
};

/// Whether a name is `digits` hexadecimal digits and then `ending`.
bool IsHexName(std::string_view name, size_t digits, std::string_view ending);

}  // namespace treadle::driver
