// SPDX-License-Identifier: Apache-2.0
#include "cli/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "treadle/base/error.h"

namespace treadle::cli {

void ReserveStandardStreams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest number that is free: this one. The other way round, so that its use fails.
    if (open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

void CheckPrinted() {
  errno = 0;
  std::cout.flush();
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout;
  if (!failed) return;
  throw RuntimeError(
      StrCat("can't write to standard output", errno != 0 ? ": " : "", errno != 0 ? std::strerror(errno) : ""));
}

}  // namespace treadle::cli
