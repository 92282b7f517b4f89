// SPDX-License-Identifier: Apache-2.0
// Regular expressions in RE2's syntax, matched in time linear in the text: a set of states walks over it (Thompson
// 1968, "Regular expression search algorithm"), there is no backtracking and no recursion over the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace treadle::runtime {

class Regex {
 public:
  /// Throws Error with the position for what isn't a pattern, or is one that isn't supported (\p{..} classes, flags
  /// other than i and s), or needs more than 100,000 states.
  explicit Regex(std::string_view pattern);
  /// Whether the whole text (UTF-8; other bytes stand for themselves) matches.
  bool FullMatch(std::string_view text) const;
  /// The parts of a text (its characters' code points) that match, from left to right: of those that begin first the
  /// longest, none empty, [begin, end).
  std::vector<std::pair<size_t, size_t>> FindAll(const std::vector<uint32_t>& characters) const;

  struct Range {
    uint32_t low, high;
  };
  enum class Kind : uint8_t { kSet, kSplit, kJump, kBegin, kEnd, kWordBoundary, kNoWordBoundary, kMatch };
  struct State {
    Kind kind;
    int32_t next = -1, other = -1;  ///< of kSplit: both
    int32_t set = -1;               ///< of kSet: index in sets
  };
  struct Set {
    std::vector<Range> ranges;
    bool negated = false;
  };

 private:
  std::pair<size_t, size_t> Find(const std::vector<uint32_t>& characters, size_t from) const;
  void Add(int32_t state, bool begin, bool end, bool boundary, std::vector<int32_t>* list, std::vector<uint32_t>* marks,
           uint32_t mark) const;
  bool Contains(const Set& set, uint32_t c) const;

  std::vector<State> states_;
  std::vector<Set> sets_;
  int32_t start_ = 0;
};

}  // namespace treadle::runtime
