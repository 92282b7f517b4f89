// SPDX-License-Identifier: Apache-2.0
#include "runtime/huge_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/file_io.h"

namespace treadle::runtime {
namespace {

TEST(HugePagesTest, MovedBytesStayWhereTheyAre) {
  constexpr size_t kBytes = (size_t{11} << 20) + 123;
  std::string content(kBytes, '\0');
  uint32_t state = 1;
  for (char& c : content) c = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "treadle_huge_pages_test.bin";
  std::ofstream(path, std::ios::binary) << content;
  MappedFile file(path.string());
  std::filesystem::remove(path);
  MoveToHugePages(file.bytes().data() + 77, kBytes - 77);
  EXPECT_TRUE(file.bytes() == content);
}

}  // namespace
}  // namespace treadle::runtime
