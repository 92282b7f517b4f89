// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "runtime/cpu_topology.h"
#include "treadle/base/error.h"
#include "treadle/runtime/last_error.h"

// A program with a sanitizer has that sanitizer's operator new and can have no other.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TREADLE_KEEP_NEW
#endif
#endif

#ifndef TREADLE_KEEP_NEW
namespace {
/// Whether allocations of over-aligned objects, such as the pool's workers, fail in this thread.
thread_local bool aligned_allocations_fail = false;
}  // namespace

void* operator new(size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  void* data = aligned_allocations_fail ? nullptr : std::aligned_alloc(unit, (size + unit - 1) / unit * unit);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { std::free(data); }
#endif

namespace treadle::runtime {
namespace {

using ::testing::ThrowsMessage;

TEST(ThreadPool, RunsEveryTaskOnce) {
  ConcurrencyScope threads(4);
  std::vector<std::atomic<int>> runs(37);
  auto task = [](int id, TreadleParallelGroupEnv* env, void* data) {
    EXPECT_EQ(env->num_task, 37);
    ++(*static_cast<std::vector<std::atomic<int>>*>(data))[id];
    return 0;
  };
  EXPECT_EQ(ParallelLaunch(task, &runs, 37), 0);
  for (auto& count : runs) EXPECT_EQ(count, 1);
}

TEST(ThreadPool, ParallelForCoversTheRange) {
  ConcurrencyScope threads(3);
  for (int64_t size : {0, 1, 2, 3, 100, 1001}) {
    std::vector<int> touched(size, 0);
    ParallelFor(size, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++touched[i];
    });
    EXPECT_THAT(touched, ::testing::Each(1));
  }
}

TEST(ThreadPool, LimitIsKept) {
  struct Seen {
    std::mutex mutex;
    std::set<std::thread::id> threads;
  };
  for (size_t limit : {1, 2, 3}) {
    ConcurrencyScope threads(static_cast<int>(limit));
    auto task = [](int, TreadleParallelGroupEnv*, void* data) {
      auto* seen = static_cast<Seen*>(data);
      std::lock_guard<std::mutex> lock(seen->mutex);
      seen->threads.insert(std::this_thread::get_id());
      return 0;
    };
    Seen seen;
    EXPECT_EQ(ParallelLaunch(task, &seen, 100), 0);
    EXPECT_LE(seen.threads.size(), limit);
  }
}

TEST(ThreadPool, RunsNoMoreTasksThanAskedFor) {
  ConcurrencyScope threads(4);
  for (int most : {1, 2, 3, 5}) {
    auto task = [](int, TreadleParallelGroupEnv* env, void* seen) {
      *static_cast<std::atomic<int>*>(seen) = env->num_task;
      return 0;
    };
    std::atomic<int> seen{0};
    EXPECT_EQ(ParallelLaunch(task, &seen, -most), 0);
    EXPECT_GE(seen, 1);
    EXPECT_LE(seen, most);
  }
}

TEST(ThreadPool, TasksOfAThreadThatIsHeldUpAreTakenByOthers) {
  ConcurrencyScope threads(2);
  // Task 0 ends when all others have run: those of its own share too are run by the other thread.
  struct Seen {
    std::atomic<int> done{0};
    std::atomic<bool> in_time{false};
  } seen;
  auto task = [](int id, TreadleParallelGroupEnv* env, void* data) {
    auto* s = static_cast<Seen*>(data);
    if (id != 0) return static_cast<int>((++s->done, 0));
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (s->done + 1 < env->num_task && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    s->in_time = s->done + 1 == env->num_task;
    return 0;
  };
  EXPECT_EQ(ParallelLaunch(task, &seen, 8), 0);
  EXPECT_TRUE(seen.in_time);
}

#ifndef TREADLE_KEEP_NEW
TEST(ThreadPool, LoopsRunWithTheThreadsThatMemoryIsLeftFor) {
  // A child, whose pool is empty: the first launch would make its workers.
  const pid_t child = fork();
  if (child == 0) {
    ConcurrencyScope threads(4);
    std::atomic<int64_t> covered{0};
    const auto cover = [&covered](int64_t begin, int64_t end) { covered += end - begin; };
    aligned_allocations_fail = true;
    for (int i = 0; i < 8; ++i) ParallelFor(100, cover);
    const bool alone = covered == 800 && WorkerThreads() == 0;
    aligned_allocations_fail = false;
    // No thread is counted as busy since then, so that all four take part now.
    ParallelFor(100, cover);
    _exit(alone && covered == 900 && WorkerThreads() == 3 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}
#endif

TEST(ThreadPool, NestedLaunchesRunInTheSameThread) {
  ConcurrencyScope threads(3);
  ParallelFor(3, [](int64_t, int64_t) {
    auto outer = std::this_thread::get_id();
    ParallelFor(10, [outer](int64_t, int64_t) { EXPECT_EQ(std::this_thread::get_id(), outer); });
  });
}

TEST(ThreadPool, ReportsTheErrorOfTheLowestFailingTask) {
  ConcurrencyScope threads(4);
  for (int round = 0; round < 50; ++round) {
    auto fail = [](int64_t begin, int64_t) { throw ShapeError(begin == 0 ? "first" : "later"); };
    EXPECT_THAT([&] { ParallelFor(8, fail); }, ThrowsMessage<ShapeError>("first"));
  }
  auto task = [](int id, TreadleParallelGroupEnv*, void*) { return id == 2 ? SetLastError("task 2 failed") : 0; };
  EXPECT_EQ(ParallelLaunch(task, nullptr, 4), -1);
  EXPECT_STREQ(LastErrorMessage(), "task 2 failed");
}

TEST(ThreadPool, FailuresWithoutATextDoNotReportAnEarlierError) {
  for (int limit : {1, 4}) {
    ConcurrencyScope threads(limit);
    SetLastError("an earlier error");
    auto task = [](int id, TreadleParallelGroupEnv*, void*) { return id == 0 ? 7 : 0; };
    EXPECT_EQ(ParallelLaunch(task, nullptr, 4), -1);
    EXPECT_STREQ(LastErrorMessage(), "task 0 of a parallel loop returned 7 without setting an error");
  }
}

TEST(ThreadPool, LaunchesFromManyThreadsShareTheWorkers) {
  const int before = WorkerThreads();
  std::atomic<int64_t> total{0};
  std::vector<std::thread> launchers;
  for (int t = 0; t < 4; ++t) {
    launchers.emplace_back([&total] {
      ConcurrencyScope threads(4);
      for (int i = 0; i < 300; ++i) {
        ParallelFor(64, [&total](int64_t begin, int64_t end) { total += end - begin; });
      }
    });
  }
  for (auto& thread : launchers) thread.join();
  EXPECT_EQ(total, 4 * 300 * 64);
  EXPECT_LE(WorkerThreads(), std::max(before, 3));
}

TEST(ThreadPool, LaunchesOfDifferentLimitsKeepTheirTasksApart) {
  // A worker of the larger launch may be free again while another one of the same launch still looks for tasks.
  constexpr int kMostTasks = 64;
  struct Launch {
    int tasks;
    std::array<std::atomic<int>, kMostTasks> runs{};
    std::atomic<int> strays{0};
  };
  auto task = [](int id, TreadleParallelGroupEnv* env, void* data) {
    auto* launch = static_cast<Launch*>(data);
    const bool own = id >= 0 && id < launch->tasks && env->num_task == launch->tasks;
    ++(own ? launch->runs[id] : launch->strays);
    if (id % 3 == 0) std::this_thread::yield();
    return 0;
  };
  std::atomic<int> wrong{0};
  std::vector<std::thread> launchers;
  for (int t = 0; t < 4; ++t) {
    launchers.emplace_back([&wrong, &task, t] {
      ConcurrencyScope threads(t % 2 == 0 ? 3 : 16);
      for (int round = 0; round < 300; ++round) {
        Launch launch{5 + (round * 31 + t * 17) % (kMostTasks - 5)};
        EXPECT_EQ(ParallelLaunch(task, &launch, launch.tasks), 0);
        wrong += launch.strays;
        for (int i = 0; i < launch.tasks; ++i) wrong += launch.runs[i] != 1;
      }
    });
  }
  for (auto& thread : launchers) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, TasksOfUnevenLengthAllRunOnce) {
  // Short tasks are often taken back by the launcher, long ones hardly ever.
  ConcurrencyScope threads(4);
  for (int round = 0; round < 500; ++round) {
    std::atomic<int64_t> sum{0};
    ParallelFor(8, [&](int64_t begin, int64_t end) {
      volatile int work = 0;
      for (int i = 0; i < (round % 7) * static_cast<int>(begin) * 100; ++i) work = work + 1;
      for (int64_t i = begin; i < end; ++i) sum += i;
    });
    ASSERT_EQ(sum, 28);
  }
}

TEST(ThreadPool, SleepingWorkersWakeUp) {
  ConcurrencyScope threads(4);
  for (int i = 0; i < 5; ++i) {
    std::atomic<int> sum{0};
    ParallelFor(4, [&](int64_t begin, int64_t end) { sum += static_cast<int>(end - begin); });
    EXPECT_EQ(sum, 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(ThreadPool, WorkersWakeUpForALoopThatWasBrief) {
  // Nobody is woken for a loop that took no time when it ran last; when it takes longer, they are all the same.
  struct Loop {
    bool brief = true;
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::atomic<size_t> seen{0};
  } loop;
  auto task = [](int id, TreadleParallelGroupEnv*, void* data) {
    auto* l = static_cast<Loop*>(data);
    if (l->brief) return 0;
    {
      std::lock_guard<std::mutex> lock(l->mutex);
      l->threads.insert(std::this_thread::get_id());
      l->seen = l->threads.size();
    }
    const auto wait = id == 0 ? std::chrono::microseconds(200) : std::chrono::seconds(20);
    const auto end = std::chrono::steady_clock::now() + wait;
    while (l->seen < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return 0;
  };
  ConcurrencyScope threads(2);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ParallelLaunch(task, &loop, 8), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  loop.brief = false;
  EXPECT_EQ(ParallelLaunch(task, &loop, 8), 0);
  EXPECT_EQ(loop.seen, 2);
}

TEST(ThreadPool, RunsOfOtherThreadsKeepTheirProcessors) {
  const int limit = std::max(2, DefaultConcurrency());
  std::atomic<int> inside{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> runs;
  for (int i = 1; i < limit; ++i) {
    runs.emplace_back([&] {
      RunScope run(limit);
      ++inside;
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
  while (inside != limit - 1) std::this_thread::yield();
  RunScope run(limit);
  const auto self = std::this_thread::get_id();
  ParallelFor(100, [self](int64_t, int64_t) { EXPECT_EQ(std::this_thread::get_id(), self); });
  over = true;
  for (auto& thread : runs) thread.join();
}

TEST(ThreadPool, BoundThreadsLaunchNoMoreThreadsThanTheirProcessors) {
  if (std::getenv("TREADLE_NUM_THREADS") != nullptr) GTEST_SKIP() << "the number of threads is given";
  int bound = 0;
  std::thread([&bound] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(ProcessCpus()[0], &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    bound = DefaultConcurrency();
    // Workers that it creates serve everybody: they aren't bound.
    ConcurrencyScope threads(WorkerThreads() + 2);
    const auto self = std::this_thread::get_id();
    ParallelFor(64, [self](int64_t, int64_t) {
      if (std::this_thread::get_id() != self) {
        EXPECT_EQ(AllowedCpus(), ProcessCpus());
      }
    });
  }).join();
  EXPECT_EQ(bound, 1);
  EXPECT_EQ(DefaultConcurrency(), DefaultThreads(ProcessCpus()));
}

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if !defined(__SANITIZE_THREAD__) && !__has_feature(thread_sanitizer)
TEST(ThreadPool, WorksInAForkedChild) {
  RunScope run(3);  // the child inherits that it is in a run
  ParallelFor(8, [](int64_t, int64_t) {});
  pid_t child = fork();
  if (child == 0) {
    std::atomic<int> sum{0};
    ParallelFor(8, [&](int64_t begin, int64_t end) { sum += static_cast<int>(end - begin); });
    _exit(sum == 8 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}
#endif

TEST(ThreadPool, RefusesImpossibleLimits) {
  EXPECT_THROW(SetMaxConcurrency(-1), Error);
  EXPECT_THROW(SetMaxConcurrency(100000), Error);
}

class FakeRoot {
 public:
  FakeRoot() : path_(::testing::TempDir() + "treadle_root_" + std::to_string(getpid())) {
    std::filesystem::remove_all(path_);
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path_ + name).parent_path());
    std::ofstream(path_ + name) << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(CpuTopology, ReadsControlGroupVersion2) {
  FakeRoot root;
  root.Write("/proc/self/cgroup", "0::/a/b\n");
  EXPECT_EQ(CgroupCpuLimit(root.path()), 0);
  root.Write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCpuLimit(root.path()), 0);
  root.Write("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  EXPECT_EQ(CgroupCpuLimit(root.path()), 3);
  root.Write("/sys/fs/cgroup/a/b/cpu.max", "100000 100000\n");
  EXPECT_EQ(CgroupCpuLimit(root.path()), 1);
}

TEST(CpuTopology, ReadsControlGroupVersion1InAContainer) {
  FakeRoot root;
  root.Write("/proc/self/cgroup", "4:cpu,cpuacct:/docker/0123\n3:memory:/docker/0123\n");
  root.Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  root.Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCpuLimit(root.path()), 2);
  root.Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(CgroupCpuLimit(root.path()), 0);
}

TEST(CpuTopology, CountsCoresNotHyperThreads) {
  FakeRoot root;
  root.Write("/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n");
  root.Write("/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3\n");
  root.Write("/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2\n");
  EXPECT_EQ(PhysicalCores({0, 1, 2}, root.path()), 2);
  EXPECT_EQ(PhysicalCores({0, 1, 2, 3}, root.path()), 4);
}

TEST(CpuTopology, NamesMissingFeatures) {
  EXPECT_EQ(MissingCpuFeatures({"no-such-feature"}), std::vector<std::string>{"no-such-feature"});
  EXPECT_TRUE(MissingCpuFeatures(HostCpuFeatures()).empty());
}

}  // namespace
}  // namespace treadle::runtime
