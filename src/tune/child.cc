// SPDX-License-Identifier: Apache-2.0
#include "tune/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "treadle/runtime/plugin.h"

namespace treadle::tune {

std::string MeasureProgram() {
  const char* given = std::getenv("TREADLE_PROGRAM");
  std::string path = given != nullptr ? given : runtime::RuntimeDirectory() + "/../bin/treadle";
  if (access(path.c_str(), X_OK) != 0) {
    throw RuntimeError(StrCat("tuning needs the program treadle, which isn't at ", path, " (set TREADLE_PROGRAM)"));
  }
  return path;
}

MeasureChild::MeasureChild(const std::string& program, int threads, int memory_mib) {
  int to_child[2], from_child[2];
  if (pipe2(to_child, O_CLOEXEC) != 0) throw RuntimeError(StrCat("can't make a pipe: ", std::strerror(errno)));
  if (pipe2(from_child, O_CLOEXEC) != 0) {
    close(to_child[0]);
    close(to_child[1]);
    throw RuntimeError(StrCat("can't make a pipe: ", std::strerror(errno)));
  }
  std::vector<std::string> words{
      program, "measure", "--threads", std::to_string(threads), "--memory", std::to_string(memory_mib)};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
  const int failure = posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to_child[0]);
  close(from_child[1]);
  in_ = to_child[1];
  out_ = from_child[0];
  if (failure != 0) {
    pid_ = -1;
    close(in_);
    close(out_);
    throw RuntimeError(StrCat("can't start ", program, ": ", std::strerror(failure)));
  }
}

MeasureChild::~MeasureChild() {
  if (in_ >= 0) close(in_);
  if (out_ >= 0) close(out_);
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string MeasureChild::HowItEnded() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) return "ended";
  }
  pid_ = -1;
  if (WIFSIGNALED(status)) return StrCat("crashed: signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  return StrCat("ended with status ", WEXITSTATUS(status));
}

void MeasureChild::Fail(const std::string& reason) {
  if (pid_ >= 0) {
    kill(pid_, SIGKILL);
    HowItEnded();
  }
  throw ChildGone(reason);
}

std::string MeasureChild::Ask(const std::string& request, double seconds) {
  using Clock = std::chrono::steady_clock;
  if (pid_ < 0) throw ChildGone("ended before");
  // A child that is gone makes an error of writing, not a signal.
  struct sigaction ignore{}, old{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &old);
  const std::string line = request + "\n";
  size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t count = write(in_, line.data() + sent, line.size() - sent);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    sent += static_cast<size_t>(count);
  }
  sigaction(SIGPIPE, &old, nullptr);
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const size_t end = rest_.find('\n');
    if (end != std::string::npos) {
      std::string answer = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      return answer;
    }
    const double left = std::chrono::duration<double>(until - Clock::now()).count();
    if (left <= 0) Fail(StrCat("took longer than ", FixedText(seconds, 1), " s"));
    pollfd ready{out_, POLLIN, 0};
    constexpr double kMilliseconds = 1e3;
    if (poll(&ready, 1, static_cast<int>(left * kMilliseconds) + 1) <= 0) continue;
    char buffer[1 << 14];
    const ssize_t count = read(out_, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw ChildGone(HowItEnded());
    rest_.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace treadle::tune
