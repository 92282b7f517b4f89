// SPDX-License-Identifier: Apache-2.0
// Running other programs.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/compare.h"
#include "treadle/base/error.h"

namespace treadle::cli {

int RunPython(const std::string& script, const std::vector<std::string>& arguments, const std::string& stdout_file) {
  // Interrupts wait until the script can take them: the interpreter's start would print where it was.
  const std::string whole = StrCat(
      "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
      "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])\n",
      script);
  std::vector<std::string> command{PythonProgram(), "-c", whole};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t interrupts;
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  posix_spawnattr_setsigmask(&attributes, &interrupts);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!stdout_file.empty()) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, stdout_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  }
  pid_t child = 0;
  const int failure = posix_spawnp(&child, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return 127;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw RuntimeError(StrCat("can't wait for ", command[0]));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace treadle::cli
