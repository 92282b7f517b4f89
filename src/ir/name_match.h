// SPDX-License-Identifier: Apache-2.0
// What a user may have meant by a name that isn't known.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace treadle {

/// Least number of insertions, deletions and replacements of characters that lead from one text to the other.
inline size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// Those of `known` that are within a third of the name's length of it, nearest first: "a, b"; "" if none is.
inline std::string NearMatches(const std::string& name, const std::vector<std::string>& known) {
  std::vector<std::pair<size_t, std::string>> found;
  for (const std::string& other : known) {
    size_t distance = EditDistance(name, other);
    if (distance <= name.size() / 3 + 1 || other.find(name) != std::string::npos) found.emplace_back(distance, other);
  }
  std::sort(found.begin(), found.end());
  std::string text;
  for (size_t i = 0; i < found.size() && i < 3; ++i) text += (i == 0 ? "" : ", ") + found[i].second;
  return text;
}

}  // namespace treadle
