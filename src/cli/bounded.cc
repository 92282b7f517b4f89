// SPDX-License-Identifier: Apache-2.0
#include "cli/bounded.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <thread>

#include "cli/compiler_api.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

using Clock = std::chrono::steady_clock;

void Limit(int64_t bytes) {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (bytes == 0) return;
  const rlimit limit{static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
  if (setrlimit(RLIMIT_DATA, &limit) != 0) {
    throw RuntimeError(StrCat("can't limit the memory to ", bytes, " bytes: ", std::strerror(errno)));
  }
}

/// Waits until then; whether the child has ended.
bool EndsBy(pid_t child, const std::optional<Clock::time_point>& end, int* status) {
  for (;;) {
    const pid_t ended = waitpid(child, status, end ? WNOHANG : 0);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) throw RuntimeError(StrCat("can't wait for a child: ", std::strerror(errno)));
    if (!end) continue;
    if (Clock::now() >= *end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// Asked to end, it removes its unfinished files.
void End(pid_t child) {
  int status = 0;
  kill(child, SIGTERM);
  if (EndsBy(child, Clock::now() + std::chrono::seconds(2), &status)) return;
  kill(child, SIGKILL);
  EndsBy(child, std::nullopt, &status);
}

}  // namespace

std::optional<int> ContinueInChild(const Bounds& bounds, const std::string& what) {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw RuntimeError(StrCat("can't start a child process: ", std::strerror(errno)));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(static_cast<int>(ExitCode::kRuntime));
    FindCompiler();  // loaded before: what fails for the limit is said to be out of memory
    Limit(bounds.bytes);
    return std::nullopt;
  }
  std::optional<Clock::time_point> end;
  if (bounds.seconds > 0) {
    end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bounds.seconds));
  }
  int status = 0;
  if (!EndsBy(child, end, &status)) {
    End(child);
    throw RuntimeError(StrCat(what, " took more than ", bounds.seconds, " seconds (--max-compile-seconds)"));
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  std::string message = StrCat(what, " was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  if (bounds.bytes > 0) {
    message += StrCat("; it may use ", bounds.bytes, " bytes of memory (--max-compile-memory)");
  }
  throw RuntimeError(message);
}

}  // namespace treadle::cli
