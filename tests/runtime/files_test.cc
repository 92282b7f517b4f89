// SPDX-License-Identifier: Apache-2.0
// Files that are written: whole or not at all, never over what they mustn't replace, and nothing left behind.
#include "runtime/file_io.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() : folder_(fs::path(::testing::TempDir()) / ("files" + std::to_string(getpid()) + "_" + TestName())) {
    fs::create_directories(folder_);
  }
  ~FilesTest() override { fs::remove_all(folder_); }
  static std::string TestName() { return ::testing::UnitTest::GetInstance()->current_test_info()->name(); }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Put(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  static std::string Refusal(const std::string& path, FileKind kind = FileKind::kAny,
                             const std::vector<std::string>& inputs = {}) {
    try {
      CheckOutputPath(path, kind, inputs);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  fs::path folder_;
};

TEST_F(FilesTest, AreReplacedWhole) {
  WriteFile(Path("f"), "one");
  WriteFile(Path("f"), "two, which is longer");
  EXPECT_EQ(ReadFile(Path("f")), "two, which is longer");
  EXPECT_EQ(Names(), std::vector<std::string>{"f"});
}

TEST_F(FilesTest, HaveTheModeOfTheUsersMask) {
  WriteFile(Path("f"), "x");
  const mode_t mask = umask(0);
  umask(mask);
  struct stat info{};
  ASSERT_EQ(stat(Path("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST_F(FilesTest, SymbolicLinksAreFollowed) {
  Put("real", "old");
  fs::create_symlink(Path("real"), Path("link"));
  WriteFile(Path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(ReadFile(Path("real")), "new");
}

TEST_F(FilesTest, DevicesFoldersAndPipesAreRefused) {
  EXPECT_THAT(Refusal("/dev/null"), HasSubstr("a device, pipe or socket"));
  EXPECT_THAT(Refusal(folder_.string()), HasSubstr("is a directory"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(Refusal(Path("pipe")), HasSubstr("a device, pipe or socket"));
  EXPECT_THAT(Refusal(Path("none/f")), HasSubstr("there is no folder"));
  EXPECT_THAT(Refusal(""), HasSubstr("empty"));
  EXPECT_THROW(WriteFile("/dev/null", "x"), Error);
}

TEST_F(FilesTest, InputsAreRefusedByWhateverName) {
  const std::string model = Put("m.onnx", "model");
  EXPECT_THAT(Refusal(model, FileKind::kAny, {model}), HasSubstr("it is the input"));
  fs::create_hard_link(model, Path("hard"));
  fs::create_symlink(model, Path("soft"));
  EXPECT_THAT(Refusal(Path("hard"), FileKind::kAny, {model}), HasSubstr("it is the input"));
  EXPECT_THAT(Refusal(Path("soft"), FileKind::kAny, {model}), HasSubstr("it is the input"));
  EXPECT_EQ(Refusal(Path("other"), FileKind::kAny, {model}), "");
}

TEST_F(FilesTest, FilesOfAnotherKindAreRefused) {
  const std::string archive = Put("x.npz", std::string("PK\x03\x04 and more", 12));
  EXPECT_THAT(Refusal(archive, FileKind::kLibrary), HasSubstr("isn't a shared library"));
  EXPECT_EQ(Refusal(archive, FileKind::kNpz), "");
  EXPECT_EQ(Refusal(Put("empty", ""), FileKind::kLibrary), "");
  EXPECT_EQ(Refusal(Put("lib",
                        "\x7f"
                        "ELF..."),
                    FileKind::kLibrary),
            "");
}

TEST_F(FilesTest, WithoutCommitNothingIsLeft) {
  Put("f", "old");
  {
    OutputFile file(Path("f"));
    file.Write("half");
    EXPECT_EQ(Names().size(), 2u);
  }
  EXPECT_EQ(Names(), std::vector<std::string>{"f"});
  EXPECT_EQ(ReadFile(Path("f")), "old");
}

TEST_F(FilesTest, FullDisksAreErrors) {
  // A limit on the size of files fails writes as a full disk does.
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{1000, old.rlim_max};
  auto* handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    WriteFile(Path("f"), std::string(5000, 'x'));
  } catch (const RuntimeError& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr("can't write"));
  EXPECT_TRUE(Names().empty());
}

TEST_F(FilesTest, ManyThreadsMayWriteOnePath) {
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        try {
          WriteFile(Path("f"), std::string(1000, static_cast<char>('a' + t)));
        } catch (const Error&) {
          ++failed;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  const std::string bytes = ReadFile(Path("f"));
  EXPECT_EQ(bytes, std::string(1000, bytes[0]));
  EXPECT_EQ(Names(), std::vector<std::string>{"f"});
}

/// Runs `body` in a child process, which it should end by a signal.
template <typename Body>
void InChild(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST_F(FilesTest, WhatKilledProcessesLeftGoesWithTheNextOne) {
  InChild([this] {
    OutputFile file(Path("f"));
    file.Write("half");
    const Unfinished folder(folder_.string(), Unfinished::Kind::kFolder);
    std::ofstream(folder.path() + "/object.o") << "x";
    kill(getpid(), SIGKILL);
  });
  EXPECT_EQ(Names().size(), 2u);
  WriteFile(Path("other"), "x");  // sweeps
  EXPECT_EQ(Names(), std::vector<std::string>{"other"});
}

TEST_F(FilesTest, WhatLivingProcessesHaveIsLeftAlone) {
  OutputFile file(Path("f"));
  InChild([this] {
    SweepUnfinished(folder_.string() + "/.");  // a name that this process hasn't swept yet
    kill(getpid(), SIGKILL);
  });
  EXPECT_EQ(Names().size(), 1u);
  file.Write("whole");
  file.Commit();
  EXPECT_EQ(ReadFile(Path("f")), "whole");
}

TEST_F(FilesTest, SignalHandlersRemoveWhatIsUnderConstruction) {
  InChild([this] {
    signal(SIGTERM, [](int number) {
      RemoveUnfinished();
      signal(number, SIG_DFL);
      raise(number);
    });
    OutputFile file(Path("f"));
    const Unfinished folder(folder_.string(), Unfinished::Kind::kFolder);
    std::ofstream(folder.path() + "/object.o") << "x";
    raise(SIGTERM);
  });
  EXPECT_TRUE(Names().empty());
}

}  // namespace
}  // namespace treadle::runtime
