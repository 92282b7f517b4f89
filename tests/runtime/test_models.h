// SPDX-License-Identifier: Apache-2.0
// Access to the libraries that the build makes for the tests of the runtime (tests/support).
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "treadle/runtime/artifact.h"

namespace treadle::runtime {

/// A file of its own in the temporary directory, removed at the end of the test.
class TempFile {
 public:
  explicit TempFile(const std::string& suffix) {
    static std::atomic<int> counter{0};
    path_ = ::testing::TempDir() + "treadle_" + std::to_string(getpid()) + "_" + std::to_string(counter++) + suffix;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }
  void Write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string Read() const {
    std::ostringstream text;
    text << std::ifstream(path_, std::ios::binary).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

/// A sealed copy of one of the built models.
class SealedModel : public TempFile {
 public:
  explicit SealedModel(const std::string& built = TREADLE_TEST_MODEL_GOOD) : TempFile(".so") {
    std::filesystem::copy_file(built, path());
    SealFile(path());
  }
};

}  // namespace treadle::runtime
