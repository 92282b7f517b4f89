// SPDX-License-Identifier: Apache-2.0
#include "runtime/file_backed.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/mapped_memory.h"

namespace treadle::runtime {
namespace {

std::vector<int32_t> Numbers(size_t count) {
  std::vector<int32_t> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<int32_t>(i * 7);
  return numbers;
}

TEST(FileBacked, CopiesOutliveTheirSourceAndTheLossOfTheirPages) {
  const std::vector<int32_t> numbers = Numbers(kLeastFileBacked / 2);
  const size_t bytes = numbers.size() * sizeof(int32_t);
  std::shared_ptr<const void> copy;
  {
    std::vector<char> shifted(bytes + 1);
    std::memcpy(shifted.data() + 1, numbers.data(), bytes);
    copy = CopyToFile(shifted.data() + 1, bytes);
  }
  if (copy == nullptr) GTEST_SKIP() << "no folder for temporary files is on a disk with room";
  EXPECT_EQ(reinterpret_cast<uintptr_t>(copy.get()) % 64, 0U);
  EXPECT_EQ(std::memcmp(copy.get(), numbers.data(), bytes), 0);
  ReleasePages(copy.get(), bytes);
  EXPECT_EQ(std::memcmp(copy.get(), numbers.data(), bytes), 0);
}

TEST(FileBacked, FewBytesStayInMemory) { EXPECT_EQ(CopyToFile("x", 1), nullptr); }

TEST(FileBacked, ArraysKeepShapeAndElements) {
  const NDArray array = NDArray::FromVector(Numbers(kLeastFileBacked), {4, static_cast<int64_t>(kLeastFileBacked) / 4},
                                            DataType::Int(32));
  const NDArray moved = ToFile(array);
  EXPECT_EQ(moved.shape(), array.shape());
  EXPECT_EQ(moved.dtype(), array.dtype());
  EXPECT_EQ(std::memcmp(moved.data_ptr(), array.data_ptr(), static_cast<size_t>(array.nbytes())), 0);
}

/// A machine with such figures below /proc; its control group allows `limit` bytes.
bool IsShortWhere(int64_t own_kb, int64_t available_kb, int64_t limit) {
  const auto root = std::filesystem::path(testing::TempDir()) / "file_backed_machine";
  std::filesystem::create_directories(root / "proc/self");
  std::filesystem::create_directories(root / "sys/fs/cgroup/group");
  std::ofstream(root / "proc/self/status") << StrCat("Name:\tx\nVmRSS:\t9 kB\nRssAnon:\t", own_kb, " kB\n");
  std::ofstream(root / "proc/meminfo") << StrCat("MemTotal:  9 kB\nMemAvailable:   ", available_kb, " kB\n");
  std::ofstream(root / "proc/self/cgroup") << "0::/group\n";
  std::ofstream(root / "sys/fs/cgroup/group/memory.max") << StrCat(limit, "\n");
  const bool is_short = MemoryIsShort(root.string());
  std::filesystem::remove_all(root);
  return is_short;
}

TEST(FileBacked, MemoryIsShortByOwnUseOrByThatOfOthers) {
  constexpr int64_t kLimit = int64_t{1} << 28, kKilobytes = kLimit / 1024;
  EXPECT_FALSE(IsShortWhere(kKilobytes / 4, kKilobytes / 2, kLimit));
  EXPECT_TRUE(IsShortWhere(kKilobytes / 2 + 8, kKilobytes / 2, kLimit));
  EXPECT_TRUE(IsShortWhere(kKilobytes / 4, kKilobytes / 16, kLimit));
}

}  // namespace
}  // namespace treadle::runtime
