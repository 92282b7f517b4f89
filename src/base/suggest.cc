// SPDX-License-Identifier: Apache-2.0
#include "treadle/base/suggest.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace treadle {
namespace {

/// Longer names are compared by their beginning: they come from files, and the distance takes quadratic time.
constexpr size_t kMaxLength = 100;

size_t EditDistance(std::string_view a, std::string_view b) {
  a = a.substr(0, kMaxLength);
  b = b.substr(0, kMaxLength);
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) edits[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) edits[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
      }
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::string DidYouMean(const std::string& name, const std::vector<std::string>& known) {
  size_t least = name.size() / 3 + 2;
  const std::string* nearest = nullptr;
  for (const std::string& other : known) {
    const size_t distance = EditDistance(name, other);
    if (distance < least && distance < std::max(name.size(), other.size())) {
      least = distance;
      nearest = &other;
    }
  }
  return nearest == nullptr ? "" : "; did you mean '" + *nearest + "'?";
}

}  // namespace treadle
