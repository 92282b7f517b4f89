// SPDX-License-Identifier: Apache-2.0
// A place for the files that compilers and linkers exchange.
#pragma once

#include <string>
#include <vector>

namespace treadle::targets {

/// A directory below $TMPDIR (or /tmp) that disappears, with its files, with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  /// Path of a file in it, which is removed with it.
  std::string Path(const std::string& name);
  /// Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& bytes);

 private:
  std::string path_;
  std::vector<std::string> files_;
};

/// Contents of a file; RuntimeError when it can't be read.
std::string ReadWholeFile(const std::string& path);

}  // namespace treadle::targets
