// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/layout.h"

#include <algorithm>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "treadle/base/error.h"
#include "treadle/base/text.h"

namespace treadle {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSmall(char c) { return c >= 'a' && c <= 'z'; }
bool IsCapital(char c) { return c >= 'A' && c <= 'Z'; }

/// Text for a message: what isn't printable ASCII as \xNN, long text cut off.
std::string Shown(std::string_view text) {
  constexpr size_t kMaxShown = 40;
  std::string shown;
  for (char c : text.substr(0, kMaxShown)) {
    const bool printable = c >= ' ' && c <= '~';
    shown += printable ? std::string(1, c) : "\\x" + HexText(static_cast<unsigned char>(c), 2);
  }
  return text.size() > kMaxShown ? shown + "..." : shown;
}

}  // namespace

std::shared_ptr<const Layout::Rep> Layout::Parse(std::string_view text) {
  // `at` counts from 0.
  auto fail = [&](size_t at, const std::string& why) {
    throw ShapeError(StrCat("layout \"", Shown(text), "\", character ", at + 1, ": ", why));
  };
  auto rep = std::make_shared<Rep>();
  auto find = [&](char name) {
    return std::any_of(rep->axes.begin(), rep->axes.end(),
                       [name](const LayoutAxis& axis) { return axis.name == name; });
  };
  if (text.empty()) fail(0, "it is empty; expected dimensions such as NCHW or NCHW16c");
  if (text.size() > kMaxText) fail(kMaxText, StrCat("it is longer than ", kMaxText, " characters"));
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    int64_t factor = 0;
    for (; at < text.size() && IsDigit(text[at]); ++at) {
      factor = factor * 10 + (text[at] - '0');
      if (factor > kMaxFactor) fail(begin, StrCat("a block of more than ", kMaxFactor, " elements"));
    }
    if (at == text.size()) fail(at, "it ends in a number; expected the small letter of a block");
    const char c = text[at];
    if (!IsSmall(c) && !IsCapital(c)) fail(at, StrCat("unexpected '", Shown(text.substr(at, 1)), "'"));
    if (IsSmall(c) && factor == 0) fail(begin, StrCat("block '", c, "' needs a positive number before it"));
    if (IsCapital(c) && at != begin)
      fail(begin, StrCat("a number before dimension '", c, "'; blocks have small letters"));
    if (find(c)) fail(at, StrCat("'", c, "' occurs twice"));
    rep->axes.push_back({c, factor});
    if (IsCapital(c)) rep->primal_axes += c;
    ++at;
  }
  for (const LayoutAxis& axis : rep->axes) {
    if (!find(axis.primal())) {
      fail(text.find(axis.name), StrCat("a block of dimension '", axis.primal(), "', which isn't there"));
    }
  }
  rep->text = std::string(text);
  return rep;
}

std::shared_ptr<const Layout::Rep> Layout::Find(std::string_view text) {
  // Models use a handful of layouts; the limit keeps what a hostile program can make the process hold small.
  constexpr size_t kMaxKept = 256;
  static std::mutex mutex;
  static auto* kept = new std::unordered_map<std::string, std::shared_ptr<const Rep>>();
  const std::string key(text.substr(0, kMaxText + 1));
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto it = kept->find(key); it != kept->end()) return it->second;
  }
  std::shared_ptr<const Rep> rep = Parse(text);
  std::lock_guard<std::mutex> lock(mutex);
  if (kept->size() < kMaxKept) kept->emplace(key, rep);
  return rep;
}

Layout::Layout() {
  static const auto scalar = std::make_shared<const Rep>();
  rep_ = scalar;
}

Layout::Layout(std::string_view text) : rep_(Find(text)) {}

int Layout::IndexOf(char name) const {
  for (size_t i = 0; i < ndim(); ++i) {
    if (axes()[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int64_t Layout::BlockOf(char primal) const {
  const int inner = IsCapital(primal) ? IndexOf(static_cast<char>(primal - 'A' + 'a')) : -1;
  return inner < 0 ? 1 : axes()[static_cast<size_t>(inner)].factor;
}

bool Layout::HasAxesOf(const Layout& other) const {
  auto sorted = [](std::vector<LayoutAxis> axes) {
    std::sort(axes.begin(), axes.end(), [](const LayoutAxis& a, const LayoutAxis& b) {
      return std::tie(a.name, a.factor) < std::tie(b.name, b.factor);
    });
    return axes;
  };
  return sorted(axes()) == sorted(other.axes());
}

}  // namespace treadle
