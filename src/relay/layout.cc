// SPDX-License-Identifier: Apache-2.0
#include "treadle/relay/layout.h"

#include "treadle/base/error.h"

namespace treadle::relay {
namespace {

constexpr const char* kMarks = "*%";
constexpr int64_t kBlock = 16, kHalf = 8;

int64_t RoundUp(int64_t value, int64_t block) { return (value + block - 1) / block * block; }

/// The number of groups of a layout, 1 where it has none.
int64_t GroupsOf(const std::string& layout) {
  const size_t mark = layout.find_first_of(kMarks);
  return mark == std::string::npos ? 1 : std::stoll(layout.substr(mark + 1));
}

bool IsShuffled(const std::string& layout) { return layout.find('%') != std::string::npos; }

std::string Blocked(int64_t block) { return StrCat("NCHW", block, "c"); }

}  // namespace

std::string BlockedLayout(int64_t channels) {
  for (int64_t block : {kBlock, kHalf}) {
    if (channels > 0 && channels % block == 0) return Blocked(block);
  }
  return "";
}

std::string FilledLayout(int64_t channels, int lanes, int64_t groups) {
  if (channels <= 0 || channels % groups != 0) return "";
  const int64_t each = channels / groups, filled = RoundUp(each, kBlock), half = RoundUp(each, kHalf);
  int64_t block = 0;
  if (each % kBlock == 0) {
    block = kBlock;
  } else if (lanes >= kBlock) {
    // A half vector takes as long as a whole one.
    constexpr int64_t kMost = 8, kOf = 5;
    block = filled < 2 * half && filled * kOf <= each * kMost ? kBlock : half * 2 <= each * 3 ? kHalf : 0;
  } else {
    const bool whole = each % kHalf == 0;
    block = !whole && filled * 7 <= each * 8 ? kBlock : half * 2 <= each * 3 ? kHalf : 0;
  }
  if (block == 0) return "";
  return groups == 1 || each % block == 0 ? Blocked(block) : StrCat(Blocked(block), "*", groups);
}

int64_t BlockOf(const std::string& layout) {
  size_t digit = layout.find_first_of("0123456789");
  TREADLE_ICHECK(digit != std::string::npos) << "layout " << layout << " isn't blocked";
  return std::stoll(layout.substr(digit));
}

std::string WithoutGroups(const std::string& layout) { return layout.substr(0, layout.find_first_of(kMarks)); }

bool IsInOrder(const std::string& layout) { return layout.find_first_of(kMarks) == std::string::npos; }

int64_t ChannelsIn(const std::string& layout, int64_t channels) {
  if (layout.empty()) return channels;
  const int64_t groups = GroupsOf(layout);
  TREADLE_ICHECK(channels % groups == 0) << channels << " channels in layout " << layout;
  return groups * RoundUp(channels / groups, BlockOf(layout));
}

bool IsFilled(const std::string& layout, int64_t channels) {
  return channels >= 0 && ChannelsIn(layout, channels) != channels;
}

std::vector<int64_t> ChannelPlaces(const std::string& layout, int64_t channels) {
  const int64_t groups = GroupsOf(layout), each = channels / groups, whole = ChannelsIn(layout, channels) / groups;
  std::vector<int64_t> places;
  for (int64_t c = 0; c < channels; ++c) {
    places.push_back(IsShuffled(layout) ? c % groups * whole + c / groups : c / each * whole + c % each);
  }
  return places;
}

std::string ShuffledLayout(const std::string& layout, int64_t channels, int64_t groups) {
  if (layout.empty() || groups <= 1 || channels % groups != 0) return "";
  const bool whole = IsInOrder(layout) && channels / groups % BlockOf(layout) == 0;
  if (!whole && layout != StrCat(WithoutGroups(layout), "*", groups)) return "";
  return StrCat(WithoutGroups(layout), "%", groups);
}

}  // namespace treadle::relay
