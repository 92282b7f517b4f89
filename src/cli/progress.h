// SPDX-License-Identifier: Apache-2.0
// A line on the terminal that says how far a verb is.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace treadle::cli {

/// How much is said on standard error: nothing but errors; notes, and progress on terminals; also each stage, a line.
enum class Verbosity { kQuiet, kNormal, kVerbose };

/// Shows "compile [=====>    ] 12/30 kernels, 4 cached, 3 s left" on standard error where that is a terminal, at most
/// ten times a second, and takes it away at the end.
class ProgressLine {
 public:
  explicit ProgressLine(Verbosity verbosity);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// What is done now, such as a pass.
  void Stage(const std::string& what);
  /// `note`: what else to say of the number.
  void Count(const std::string& what, size_t done, size_t total, const std::string& note);

 private:
  using Clock = std::chrono::steady_clock;
  void Show(const std::string& line, bool at_once);

  Verbosity verbosity_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point last_, counting_since_;
  std::string counted_;
};

/// Of the terminal that standard error is; 80 where it is none.
size_t TerminalColumns();

/// "[=====>    ]" for a part of the whole between 0 and 1.
std::string ProgressBar(double part, size_t width);

}  // namespace treadle::cli
