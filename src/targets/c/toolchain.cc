// SPDX-License-Identifier: Apache-2.0
#include "treadle/targets/c_toolchain.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "runtime/file_io.h"
#include "treadle/base/error.h"

extern char** environ;

namespace treadle::targets {
namespace {

bool IsExecutable(const std::string& command) {
  if (command.find('/') != std::string::npos) return access(command.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::istringstream directories(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (access((directory + "/" + command).c_str(), X_OK) == 0) return true;
  }
  return false;
}

/// Runs a command with its output in a file; returns the exit status.
int RunCommand(const std::vector<std::string>& words, const std::string& output) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw RuntimeError(StrCat("can't run ", words[0], ": ", std::strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw RuntimeError(StrCat("waiting for ", words[0], ": ", std::strerror(errno)));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

std::vector<std::string> FindCCompiler() {
  for (const char* variable : {"TREADLE_CC", "CC"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr || *text == 0) continue;
    std::vector<std::string> words = SplitWords(text);
    if (words.empty()) continue;
    if (!IsExecutable(words[0])) {
      throw TargetError(StrCat("target c: $", variable, " is \"", text, "\", but there is no command ", words[0]));
    }
    return words;
  }
  for (const char* name : {"cc", "gcc", "clang", "clang-19"}) {
    if (IsExecutable(name)) return {name};
  }
  throw TargetError(
      "target c: there is no C compiler on this machine (looked for $TREADLE_CC, $CC, cc, gcc, clang, clang-19); "
      "install one, or use target llvm, which needs none");
}

std::string CompileC(const std::string& source, const Target& target) {
  runtime::TemporaryDirectory directory;
  const std::string object = directory.Path("k.o"), messages = directory.Path("messages");
  std::vector<std::string> command = FindCCompiler();
  // Contraction to fused multiply-adds happens where the machine has them, as in native code.
  for (const std::string& flag :
       {std::string("-std=c99"), StrCat("-O", target->GetIntAttr("opt-level", 3)), std::string("-fPIC"),
        std::string("-ffp-contract=fast"), std::string("-fno-math-errno"), std::string("-fno-trapping-math")}) {
    command.push_back(flag);
  }
  if (auto march = target->GetAttr("march")) command.push_back("-march=" + *march);
  if (auto cpu = target->GetAttr("mcpu")) command.push_back("-mcpu=" + *cpu);
  for (const std::string& word : {std::string("-c"), directory.Write("k.c", source), std::string("-o"), object}) {
    command.push_back(word);
  }
  if (RunCommand(command, messages) != 0) {
    std::string text = runtime::ReadFile(messages);
    if (text.size() > 2000) text = text.substr(0, 2000) + "...";
    throw TargetError(StrCat("target c: ", command[0], " couldn't compile the generated C: ", text));
  }
  return runtime::ReadFile(object);
}

std::vector<std::string> CLibraries() {
  runtime::TemporaryDirectory directory;
  std::vector<std::string> paths;
  // Beside those of C: C++'s, for sources in it, and the dynamic linker, which finds thread-local variables.
  for (const std::string library :
       {"libm.so.6", "libc.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}) {
    const std::string output = directory.Path(library);
    std::vector<std::string> command = FindCCompiler();
    command.push_back(StrCat("-print-file-name=", library));
    const int status = RunCommand(command, output);
    std::string path = runtime::ReadFile(output);
    path = path.substr(0, path.find('\n'));
    const bool found = status == 0 && path.find('/') != std::string::npos;
    if (!found && library != "libm.so.6" && library != "libc.so.6") continue;
    if (!found) {
      throw TargetError(StrCat("target c: ", command[0], " doesn't know where ", library, " is"));
    }
    paths.push_back(path);
  }
  return paths;
}

}  // namespace treadle::targets
