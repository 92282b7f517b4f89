// SPDX-License-Identifier: Apache-2.0
#include "driver/lower/kernel_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <chrono>

#include <filesystem>
#include <fstream>
#include <thread>

namespace treadle::driver {
namespace {

namespace fs = std::filesystem;

/// A cache in a directory of its own.
class KernelCacheTest : public ::testing::Test {
 protected:
  KernelCacheTest() : directory_(fs::path(::testing::TempDir()) / ("cache" + std::to_string(getpid()))) {
    fs::remove_all(directory_);
  }
  ~KernelCacheTest() override { fs::remove_all(directory_); }
  KernelCache Make(uint64_t limit = 1 << 20) const { return KernelCache(directory_.string(), limit); }
  fs::path File(const std::string& key) const { return directory_ / "kernels" / (key + ".o"); }
  static std::string Key(int i) {
    char text[33];
    std::snprintf(text, sizeof(text), "%032d", i);
    return text;
  }

  fs::path directory_;
};

TEST_F(KernelCacheTest, FindsWhatWasStored) {
  KernelCache cache = Make();
  EXPECT_FALSE(cache.Find(Key(1)));
  cache.Store(Key(1), "object");
  EXPECT_EQ(cache.Find(Key(1)), "object");
  EXPECT_FALSE(cache.Find(Key(2)));
  EXPECT_EQ(Make().Find(Key(1)), "object");
}

TEST_F(KernelCacheTest, RemovesDamagedEntries) {
  KernelCache cache = Make();
  cache.Store(Key(1), "a long enough object");
  for (size_t position : {0U, 20U, 40U, 70U}) {
    cache.Store(Key(1), "a long enough object");
    {
      std::fstream file(File(Key(1)), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(position));
      const char other = file.peek() == '#' ? '+' : '#';
      file.seekp(static_cast<std::streamoff>(position));
      file.put(other);
    }
    EXPECT_FALSE(cache.Find(Key(1))) << position;
    EXPECT_FALSE(fs::exists(File(Key(1))));
  }
  cache.Store(Key(1), "a long enough object");
  fs::resize_file(File(Key(1)), 50);
  EXPECT_FALSE(cache.Find(Key(1)));
}

TEST_F(KernelCacheTest, EntryUnderAnotherNameIsNotTaken) {
  KernelCache cache = Make();
  cache.Store(Key(1), "object");
  fs::copy_file(File(Key(1)), File("f" + Key(2).substr(1)));
  EXPECT_FALSE(cache.Find("f" + Key(2).substr(1)));
}

TEST_F(KernelCacheTest, RemovesWhatWasUsedLeastRecently) {
  KernelCache cache = Make(4 * 1064);
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 6; ++i) {
    cache.Store(Key(i), std::string(1000, 'x'));
    fs::last_write_time(File(Key(i)), now - std::chrono::minutes(10 - i));
  }
  EXPECT_TRUE(cache.Find(Key(0)));
  cache.Trim();
  EXPECT_TRUE(cache.Find(Key(0)));
  EXPECT_FALSE(cache.Find(Key(1)));
  EXPECT_FALSE(cache.Find(Key(2)));
  EXPECT_TRUE(cache.Find(Key(3)));
}

TEST_F(KernelCacheTest, RefusesWhatIsLargerThanTheLimit) {
  KernelCache cache = Make(100);
  cache.Store(Key(1), std::string(1000, 'x'));
  EXPECT_EQ(cache.GetStats().kernels, 0u);
}

TEST_F(KernelCacheTest, ClearsAndCounts) {
  KernelCache cache = Make();
  cache.Store(Key(1), "a");
  cache.Store(Key(2), "b");
  EXPECT_EQ(cache.GetStats().kernels, 2u);
  EXPECT_EQ(cache.Clear(), 2u);
  EXPECT_EQ(cache.GetStats().kernels, 0u);
}

TEST_F(KernelCacheTest, ModelsAreCountedOnce) {
  KernelCache cache = Make();
  cache.StoreFile(Key(1), "library");
  cache.Store(Key(1), "object");
  EXPECT_EQ(cache.GetStats().models, 1u);
  EXPECT_EQ(cache.GetStats().kernels, 1u);
  EXPECT_EQ(cache.FindFile(Key(1)), directory_ / "kernels" / (Key(1) + ".so"));
  EXPECT_EQ(cache.FindFile(Key(2)), "");
  fs::copy_file(directory_ / "kernels" / (Key(1) + ".so"), directory_ / "kernels" / (Key(2) + ".so"));
  fs::copy_file(directory_ / "kernels" / (Key(1) + ".mac"), directory_ / "kernels" / (Key(2) + ".mac"));
  EXPECT_EQ(cache.FindFile(Key(2)), "");  // under another name
  EXPECT_EQ(cache.Clear(), 2u);
  EXPECT_EQ(cache.GetStats().models + cache.GetStats().bytes, 0u);
}

TEST_F(KernelCacheTest, ManyThreadsMayUseIt) {
  KernelCache cache = Make(64 * 1024);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string object(2000, static_cast<char>('a' + i % 8));
        cache.Store(Key(i % 8), object);
        auto found = cache.Find(Key((i + t) % 8));
        if (found) {
          EXPECT_EQ(*found, std::string(2000, static_cast<char>('a' + (i + t) % 8)));
        }
        if (i % 10 == 0) cache.Trim();
        if (i % 25 == t) cache.SetLimit(64 * 1024);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(KernelCacheTest, IsPrivate) {
  const mode_t mask = umask(0);
  KernelCache cache = Make();
  cache.Store(Key(1), "object");
  umask(mask);
  auto mode = [](const fs::path& path) { return static_cast<int>(fs::status(path).permissions()); };
  EXPECT_EQ(mode(directory_), 0700);
  EXPECT_EQ(mode(directory_ / "kernels"), 0700);
  EXPECT_EQ(mode(directory_ / "kernels/key"), 0600);
  EXPECT_EQ(mode(File(Key(1))), 0600);
}

TEST_F(KernelCacheTest, EntriesOfAnotherKeyAreNotTaken) {
  KernelCache cache = Make();
  cache.Store(Key(1), "object");
  const fs::path key = directory_ / "kernels/key";
  fs::remove(key);
  std::ofstream(key) << std::string(32, 'k');
  fs::permissions(key, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_FALSE(cache.Find(Key(1)));
  cache.Store(Key(1), "object");
  EXPECT_TRUE(cache.Find(Key(1)));
  fs::permissions(key, fs::perms::others_read, fs::perm_options::add);  // others know it: it is made anew
  EXPECT_FALSE(cache.Find(Key(1)));
}

TEST_F(KernelCacheTest, FoldersThatOthersMayWriteAreNotUsed) {
  fs::create_directories(directory_ / "kernels");
  fs::permissions(directory_ / "kernels", fs::perms::all);
  KernelCache cache = Make();
  cache.Store(Key(1), "object");
  EXPECT_FALSE(cache.Find(Key(1)));
  EXPECT_NE(cache.GetStats().problem.find("others may write"), std::string::npos);
}

TEST_F(KernelCacheTest, FoldersOfOtherProgramsAreLeftAlone) {
  fs::create_directories(directory_ / "kernels");
  for (const char* name : {"driver.o", "x.tmp"}) std::ofstream(directory_ / "kernels" / name) << "mine";
  KernelCache cache = Make();
  cache.Store(Key(1), "object");
  EXPECT_FALSE(fs::exists(File(Key(1))));
  EXPECT_THROW(cache.Clear(), Error);
  EXPECT_THROW(cache.SetLimit(1), Error);
  EXPECT_TRUE(fs::exists(directory_ / "kernels/driver.o"));
}

TEST_F(KernelCacheTest, SymbolicLinksAreNotFollowed) {
  const fs::path elsewhere = directory_.string() + "_elsewhere";
  fs::create_directories(elsewhere);
  fs::create_directories(directory_);
  fs::create_symlink(elsewhere, directory_ / "kernels");
  KernelCache cache = Make();
  cache.Store(Key(1), "object");
  EXPECT_TRUE(fs::is_empty(elsewhere));
  EXPECT_THROW(cache.Clear(), Error);
  fs::remove_all(elsewhere);
}

TEST_F(KernelCacheTest, ClearsOnlyItsOwnNames) {
  KernelCache cache = Make();
  cache.Store(Key(1), "object");
  std::ofstream(directory_ / "kernels/notes.o") << "mine";
  EXPECT_EQ(cache.Clear(), 1u);
  EXPECT_TRUE(fs::exists(directory_ / "kernels/notes.o"));
}

TEST_F(KernelCacheTest, KeepsItsLimit) {
  Make().SetLimit(12345);
  EXPECT_EQ(std::ifstream(directory_ / "kernels/limit").get(), '1');
}

TEST_F(KernelCacheTest, DirectoryThatCantBeWrittenIsNoError) {
  KernelCache cache("/proc/nothing", 1 << 20);
  cache.Store(Key(1), "object");
  EXPECT_FALSE(cache.Find(Key(1)));
  cache.Trim();
  EXPECT_THROW(cache.SetLimit(1), Error);
}

}  // namespace
}  // namespace treadle::driver
