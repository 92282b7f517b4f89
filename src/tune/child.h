// SPDX-License-Identifier: Apache-2.0
// The process that runs what is measured (`treadle measure`): it has the runtime and no compiler, and may crash, hang
// or run out of memory without harm.
#pragma once

#include <sys/types.h>

#include <string>

#include "treadle/base/error.h"

namespace treadle::tune {

/// The child is gone, with the reason: "crashed: signal 11 (Segmentation fault)", "took longer than 5 s", ...
class ChildGone : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
};

/// Path of the program; environment variable TREADLE_PROGRAM, else beside the runtime's folder. Throws RuntimeError
/// where it isn't there.
std::string MeasureProgram();

class MeasureChild {
 public:
  /// Starts `program measure` with at most `memory_mib` of address space (0: no limit).
  MeasureChild(const std::string& program, int threads, int memory_mib);
  ~MeasureChild();
  MeasureChild(const MeasureChild&) = delete;
  MeasureChild& operator=(const MeasureChild&) = delete;

  /// Sends a request, a JSON object in one line, and waits for its answer. Throws Error with what the child refuses,
  /// ChildGone where it ended or took longer; it is gone then.
  std::string Ask(const std::string& request, double seconds);

 private:
  [[noreturn]] void Fail(const std::string& reason);
  std::string HowItEnded();

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  std::string rest_;  ///< read, not yet a line
};

}  // namespace treadle::tune
