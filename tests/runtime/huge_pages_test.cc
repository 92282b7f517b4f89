// SPDX-License-Identifier: Apache-2.0
#include "runtime/huge_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/file_io.h"
#include "treadle/base/error.h"
#include "treadle/runtime/limits.h"

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

TEST(HugePagesTest, CanBeSwitchedOff) {
  constexpr size_t kBytes = size_t{16} << 20;
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "treadle_huge_pages_off.bin";
  std::ofstream(path, std::ios::binary) << std::string(kBytes, 'x');
  MappedFile file(path.string());
  std::filesystem::remove(path);
  SetHugePages(HugePages::kOff);
  MoveToHugePages(file.bytes().data(), kBytes);
  SetHugePages(HugePages::kAuto);
  // The pages are those of the file still.
  std::ifstream maps("/proc/self/maps");
  std::string line;
  uint64_t mapped = 0;
  while (std::getline(maps, line)) {
    if (line.find("treadle_huge_pages_off.bin") == std::string::npos) continue;
    mapped += std::stoull(line.substr(line.find('-') + 1), nullptr, 16) - std::stoull(line, nullptr, 16);
  }
  EXPECT_EQ(mapped, kBytes);
}

TEST(HugePagesTest, ModesHaveNames) {
  EXPECT_EQ(ParseHugePages("auto"), HugePages::kAuto);
  EXPECT_EQ(ParseHugePages("on"), HugePages::kOn);
  EXPECT_EQ(ParseHugePages("off"), HugePages::kOff);
  EXPECT_THROW(ParseHugePages("yes"), Error);
}

}  // namespace
}  // namespace treadle::runtime
