// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace treadle::cli {
namespace {

bool IsTerminal() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && kind != nullptr && std::strcmp(kind, "dumb") != 0;
}

}  // namespace

size_t TerminalColumns() {
  constexpr size_t kUsual = 80;
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

std::string ProgressBar(double part, size_t width) {
  const auto filled = static_cast<size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(width));
  std::string bar(filled, '=');
  if (filled < width) bar += '>';
  bar.resize(width, ' ');
  return "[" + bar + "]";
}

ProgressLine::ProgressLine(Verbosity verbosity) : verbosity_(verbosity), terminal_(IsTerminal()) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::cerr << "\r\x1b[K" << std::flush;  // back to the first column, clear to the end of the line
}

void ProgressLine::Stage(const std::string& what) {
  if (verbosity_ == Verbosity::kVerbose) {
    std::cerr << what << "\n";
  } else {
    Show(what, /*at_once=*/false);
  }
}

void ProgressLine::Count(const std::string& what, size_t done, size_t total, const std::string& note) {
  const auto now = Clock::now();
  if (counted_ != what) {
    counted_ = what;
    counting_since_ = now;
  }
  if (verbosity_ == Verbosity::kVerbose) {
    std::cerr << fmt::format("{}/{} {}{}\n", done, total, what, note);
    return;
  }
  constexpr size_t kBarWidth = 24;
  const double part = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  std::string line = fmt::format("{} {}/{} {}{}", ProgressBar(part, kBarWidth), done, total, what, note);
  const double spent = std::chrono::duration<double>(now - counting_since_).count();
  if (done > 0 && done < total && spent > 1) line += fmt::format(", {:.0f} s left", spent / part - spent);
  Show(line, done == total);
}

void ProgressLine::Show(const std::string& line, bool at_once) {
  constexpr auto kInterval = std::chrono::milliseconds(100);
  if (!terminal_ || verbosity_ == Verbosity::kQuiet) return;
  const auto now = Clock::now();
  if (shown_ && !at_once && now - last_ < kInterval) return;
  last_ = now;
  shown_ = true;
  std::cerr << "\r" << line.substr(0, TerminalColumns() - 1) << "\x1b[K" << std::flush;
}

}  // namespace treadle::cli
