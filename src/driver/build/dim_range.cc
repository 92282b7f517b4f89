// SPDX-License-Identifier: Apache-2.0
#include "treadle/driver/dim_range.h"

#include <algorithm>
#include <charconv>

#include "treadle/base/error.h"
#include "treadle/base/int_math.h"

namespace treadle::driver {
namespace {

constexpr int64_t kMostSize = INT32_MAX;

std::string Quoted(const std::string& text) { return "'" + text + "'"; }

[[noreturn]] void Refuse(const std::string& name, const std::string& text, const std::string& why) {
  throw Error(StrCat("dimension ", Quoted(name), ": ", Quoted(text), " ", why,
                     "; expected a size (4), a range (1..8, 16.., ..640), multiples (32k), or both (64..640:32k)"));
}

}  // namespace

DimRange DimRange::Parse(const std::string& name, const std::string& text) {
  auto number = [&](const std::string& digits) {
    int64_t value = 0;
    const char* end = digits.data() + digits.size();
    auto [stop, error] = std::from_chars(digits.data(), end, value);
    if (digits.empty() || error != std::errc() || stop != end || value < 0 || value > kMostSize) {
      Refuse(name, text, StrCat("isn't understood: ", Quoted(digits), " is no size"));
    }
    return value;
  };
  DimRange range;
  std::string bounds = text;
  if (!text.empty() && text.back() == 'k') {
    const size_t colon = text.find(':');
    const size_t begin = colon == std::string::npos ? 0 : colon + 1;
    range.multiple = number(text.substr(begin, text.size() - 1 - begin));
    if (range.multiple < 1) Refuse(name, text, "isn't understood: multiples of 0");
    range.min = range.multiple;
    bounds = colon == std::string::npos ? "" : text.substr(0, colon);
  }
  if (!bounds.empty()) {
    const size_t dots = bounds.find("..");
    if (dots == std::string::npos || bounds == "..") Refuse(name, text, "isn't understood");
    if (dots > 0) range.min = number(bounds.substr(0, dots));
    if (dots + 2 < bounds.size()) range.max = number(bounds.substr(dots + 2));
  } else if (range.multiple == 1 && text.find('k') == std::string::npos) {
    Refuse(name, text, "isn't understood");
  }
  range.min = RoundUp(range.min, range.multiple);
  range.max = range.max / range.multiple * range.multiple;
  if (range.min > range.max) Refuse(name, text, "holds no size");
  return range;
}

int64_t DimRange::Nearest(int64_t size) const { return std::clamp(size, min, max) / multiple * multiple; }

std::string DimRange::str() const {
  std::string text;
  const bool below = max<kMostSize / multiple * multiple, above = min>(multiple > 1 ? multiple : 0);
  if (below || above) text = StrCat(min, "..");
  if (below) text += std::to_string(max);
  if (multiple > 1) text += StrCat(text.empty() ? "" : ", ", "a multiple of ", multiple);
  return text;
}

}  // namespace treadle::driver
