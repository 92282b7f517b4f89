// SPDX-License-Identifier: Apache-2.0
#include "tune/build.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "driver/lower/compile_engine.h"
#include "driver/package/export_library.h"
#include "runtime/file_io.h"
#include "runtime/hash64.h"
#include "treadle/base/json.h"
#include "treadle/ir/transform.h"

namespace treadle::tune {
namespace {

/// Compiles one plan to a library. Throws what the compiler throws, and Error where the plan wasn't taken.
void Build(const Task& task, const std::string& plan, const std::string& path, int opt_level) {
  auto context = transform::PassContext::Create();
  auto* node = context.CopyOnWrite();
  node->opt_level = opt_level;
  const Json line{{"problem", Json::parse(task.problem)}, {"kernel", task.kernel}, {"plan", Json::parse(plan)}};
  node->config.Set(schedule::kPlansOption, String(line.dump()));
  transform::PassContext::Scope scope(context);
  driver::CompileEngine engine("tune");
  driver::Kernel& kernel = engine.Declare(task.source, task.target);
  kernel.symbol = task.symbol;
  engine.CompileAll({1, {}, /*use_cache=*/false});
  if (const size_t at = kernel.choices.find("left out"); at != std::string::npos) {
    throw Error(kernel.choices.substr(at, kernel.choices.find('\n', at) - at));
  }
  driver::WriteLibrary({kernel.object}, nullptr, path, targets::GetLinkOptions(task.target));
}

int64_t AddressSpace() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

/// In a forked process: one library after the other. What goes wrong is written beside it.
[[noreturn]] void Work(const Task& task, const std::vector<std::pair<std::string, std::string>>& work,
                       const BuildLimits& limits) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const auto most = static_cast<rlim_t>(AddressSpace() + (static_cast<int64_t>(limits.memory_mib) << 20));
  const rlimit memory{most, most};
  setrlimit(RLIMIT_AS, &memory);
  for (const auto& [plan, path] : work) {
    std::string error;
    try {
      Build(task, plan, path, limits.opt_level);
    } catch (const std::exception& e) {
      error = e.what();
      if (error.empty()) error = "can't be built";
    }
    std::ofstream(path + ".note") << error;
    std::rename((path + ".note").c_str(), (path + ".done").c_str());  // read when it is whole
  }
  _exit(0);
}

/// A process that builds a part of the candidates.
struct Worker {
  pid_t pid = -1;
  std::vector<size_t> indices;  ///< that it has still to do
  std::chrono::steady_clock::time_point since;
};

class Pool {
 public:
  Pool(const Task& task, const std::vector<std::string>& plans, const std::string& stem, const BuildLimits& limits)
      : task_(task), plans_(plans), stem_(stem), limits_(limits), built_(plans.size()) {}

  std::vector<Built> Run() {
    const size_t jobs = std::max<size_t>(1, std::min(plans_.size(), static_cast<size_t>(std::max(1, limits_.jobs))));
    std::vector<Worker> workers(jobs);
    for (size_t i = 0; i < plans_.size(); ++i) workers[i % jobs].indices.push_back(i);
    bool busy = true;
    while (busy) {
      busy = false;
      for (Worker& worker : workers) busy |= Advance(&worker);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return built_;
  }

 private:
  std::string PathOf(size_t i) const { return StrCat(stem_, i, ".so"); }

  void Start(Worker* worker) {
    std::vector<std::pair<std::string, std::string>> work;
    for (size_t i : worker->indices) work.emplace_back(plans_[i], PathOf(i));
    worker->since = std::chrono::steady_clock::now();
    worker->pid = fork();
    if (worker->pid == 0) Work(task_, work, limits_);
    if (worker->pid < 0) throw RuntimeError(StrCat("can't start a process that builds: ", std::strerror(errno)));
  }

  /// Takes what is done; false when nothing is left.
  bool Advance(Worker* worker) {
    Collect(worker);
    if (worker->indices.empty()) {
      Stop(worker);
      return false;
    }
    if (worker->pid < 0) {
      Start(worker);
      return true;
    }
    int status = 0;
    const bool ended = waitpid(worker->pid, &status, WNOHANG) == worker->pid;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - worker->since;
    if (!ended && spent.count() <= limits_.seconds) return true;
    std::string why = StrCat("compiling took longer than ", FixedText(limits_.seconds, 0), " s");
    if (ended) {
      worker->pid = -1;
      Collect(worker);
      why = WIFSIGNALED(status) ? StrCat("the compiler crashed: signal ", WTERMSIG(status)) : "the compiler ended";
    }
    Stop(worker);
    if (worker->indices.empty()) return false;
    built_[worker->indices[0]].error = why;
    worker->indices.erase(worker->indices.begin());
    return true;
  }

  void Collect(Worker* worker) {
    while (!worker->indices.empty()) {
      const size_t i = worker->indices[0];
      std::ifstream done(PathOf(i) + ".done");
      if (!done) return;
      built_[i].error.assign(std::istreambuf_iterator<char>(done), {});
      if (built_[i].error.empty()) {
        built_[i].path = PathOf(i);
        built_[i].hash = runtime::Hash64(runtime::ReadFile(PathOf(i)));
      }
      worker->indices.erase(worker->indices.begin());
      worker->since = std::chrono::steady_clock::now();
    }
  }

  static void Stop(Worker* worker) {
    if (worker->pid < 0) return;
    kill(worker->pid, SIGKILL);
    while (waitpid(worker->pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    worker->pid = -1;
  }

  const Task& task_;
  const std::vector<std::string>& plans_;
  std::string stem_;
  BuildLimits limits_;
  std::vector<Built> built_;
};

}  // namespace

std::vector<Built> BuildCandidates(const Task& task, const std::vector<std::string>& plans, const std::string& folder,
                                   const std::string& prefix, const BuildLimits& limits) {
  if (plans.empty()) return {};
  return Pool(task, plans, StrCat(folder, "/", prefix), limits).Run();
}

}  // namespace treadle::tune
