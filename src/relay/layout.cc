// SPDX-License-Identifier: Apache-2.0
#include "treadle/relay/layout.h"

#include "treadle/base/error.h"
#include "treadle/base/int_math.h"

namespace treadle::relay {
namespace {

constexpr int64_t kBlock = 16, kHalfBlock = 8;

}  // namespace

std::string ChannelLayout::axes() const { return is_plain() ? "NCHW" : StrCat("NCHW", block, "c"); }

std::string ChannelLayout::str() const { return is_in_order() ? axes() : StrCat(axes(), shuffled ? "%" : "*", groups); }

int64_t ChannelLayout::PaddedChannels(int64_t channels) const {
  if (is_plain()) return channels;
  TREADLE_ICHECK(channels % groups == 0) << channels << " channels in layout " << str();
  return groups * RoundUp(channels / groups, block);
}

bool ChannelLayout::HasPadding(int64_t channels) const { return channels >= 0 && PaddedChannels(channels) != channels; }

std::vector<int64_t> ChannelLayout::ChannelIndexMap(int64_t channels) const {
  const int64_t each = channels / groups, padded = PaddedChannels(channels) / groups;
  std::vector<int64_t> index;
  for (int64_t c = 0; c < channels; ++c) {
    index.push_back(shuffled ? c % groups * padded + c / groups : c / each * padded + c % each);
  }
  return index;
}

ChannelLayout ChannelLayout::Shuffled(int64_t channels, int64_t shuffle_groups) const {
  if (is_plain() || shuffle_groups <= 1 || channels % shuffle_groups != 0) return {};
  const bool whole_blocks = is_in_order() && channels / shuffle_groups % block == 0;
  if (!whole_blocks && *this != ChannelLayout{block, shuffle_groups}) return {};
  return {block, shuffle_groups, true};
}

std::strong_ordering ChannelLayout::operator<=>(const ChannelLayout& other) const {
  if (is_plain() != other.is_plain()) return other.is_plain() <=> is_plain();
  if (block != other.block) return other.block <=> block;
  if (is_in_order() != other.is_in_order()) return other.is_in_order() <=> is_in_order();
  if (shuffled != other.shuffled) return other.shuffled <=> shuffled;
  return groups <=> other.groups;
}

ChannelLayout DividingLayout(int64_t channels) {
  for (int64_t block : {kBlock, kHalfBlock}) {
    if (channels > 0 && channels % block == 0) return {block};
  }
  return {};
}

ChannelLayout PaddedLayout(int64_t channels, int lanes, int64_t groups) {
  if (channels <= 0 || channels % groups != 0) return {};
  const int64_t each = channels / groups, padded = RoundUp(each, kBlock), half = RoundUp(each, kHalfBlock);
  int64_t block = 0;
  if (each % kBlock == 0) {
    block = kBlock;
  } else if (lanes >= kBlock) {
    // A half vector takes as long as a whole one.
    constexpr int64_t kMaxPadded = 8, kOfChannels = 5;
    block = padded < 2 * half && padded * kOfChannels <= each * kMaxPadded ? kBlock
            : half * 2 <= each * 3                                         ? kHalfBlock
                                                                           : 0;
  } else {
    const bool divides = each % kHalfBlock == 0;
    block = !divides && padded * 7 <= each * 8 ? kBlock : half * 2 <= each * 3 ? kHalfBlock : 0;
  }
  if (block == 0) return {};
  return {block, each % block == 0 ? 1 : groups};
}

}  // namespace treadle::relay
