// SPDX-License-Identifier: Apache-2.0
#include "cli/color.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace treadle::cli {
namespace {

std::string& Mode() {
  static std::string mode = "auto";
  return mode;
}

bool IsUsedOn(int descriptor) {
  if (Mode() != "auto") return Mode() == "always";
  const char* refused = std::getenv("NO_COLOR");  // no-color.org: any text but an empty one
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) != 0 && (refused == nullptr || *refused == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

const char* CodeOf(Color color) {
  switch (color) {
    case Color::kRed:
      return "\x1b[1;31m";
    case Color::kGreen:
      return "\x1b[32m";
    case Color::kCyan:
      return "\x1b[36m";
  }
  return "";
}

}  // namespace

void SetColorMode(const std::string& mode) { Mode() = mode; }

std::string Painted(const std::string& text, Color color, int descriptor) {
  return IsUsedOn(descriptor) ? CodeOf(color) + text + "\x1b[0m" : text;
}

std::string PaintedMessage(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, Color>, 3> kWords{
      {{"error:", Color::kRed}, {"note:", Color::kCyan}, {"help:", Color::kGreen}}};
  std::string painted;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    end = end == std::string::npos ? text.size() : end + 1;
    std::string line = text.substr(begin, end - begin);
    for (const auto& [word, color] : kWords) {
      if (line.starts_with(word)) {
        line = Painted(std::string(word), color, STDERR_FILENO) + line.substr(word.size());
        break;
      }
    }
    painted += line;
    begin = end;
  }
  return painted;
}

}  // namespace treadle::cli
