// SPDX-License-Identifier: Apache-2.0
// Layouts of activations while they are planned, and the rule by which an operator says in which it can run.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "treadle/ir/layout.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

/// The layout of an NCHW tensor: plain, or with its channels in blocks that are innermost, NCHW16c. Channels that don't
/// divide into blocks are padded: the last block ends in zeros, or whatever finite number becomes of them.
///
/// Channels in `groups` groups of equal size have whole blocks in each. The shuffled form looks the same, but channel c
/// of the tensor is number c / groups of group c % groups: so channels are shuffled (ShuffleNet, Zhang et al. 2017)
/// without moving any.
struct ChannelLayout {
  int64_t block = 0;  ///< channels of a block; 0: plain NCHW
  int64_t groups = 1;
  bool shuffled = false;

  bool is_plain() const { return block == 0; }
  bool is_blocked() const { return block != 0; }
  /// Whether channels are in the order of the tensor, all but the last block being whole.
  bool is_in_order() const { return groups == 1; }
  /// The same blocks, in one group.
  ChannelLayout WithoutGroups() const { return {block}; }

  /// "NCHW" or "NCHW16c", for attributes of operators: groups aren't part of it.
  std::string axes() const;
  /// As axes(), with groups as NCHW16c*4, shuffled ones as NCHW16c%4: for messages.
  std::string str() const;

  /// Channels that a tensor of `channels` has with those that pad blocks.
  int64_t PaddedChannels(int64_t channels) const;
  /// Whether some channels only pad blocks; false for dynamic `channels` (-1).
  bool HasPadding(int64_t channels) const;
  /// Where each of `channels` lies.
  std::vector<int64_t> ChannelIndexMap(int64_t channels) const;
  /// The layout of a tensor in this one whose `channels` are taken as (shuffle_groups, channels / shuffle_groups) and
  /// transposed, without moving any; plain where there is none.
  ChannelLayout Shuffled(int64_t channels, int64_t shuffle_groups) const;

  bool operator==(const ChannelLayout&) const = default;
  /// Plain first, then large blocks before small ones, one group before several.
  std::strong_ordering operator<=>(const ChannelLayout& other) const;
};

/// The blocked layout whose blocks `channels` divide into, of 16 or 8; plain where there is none.
ChannelLayout DividingLayout(int64_t channels);
/// As DividingLayout, but channels may be padded to whole blocks where that costs less than it gains on vectors of
/// `lanes` floats; plain where it doesn't. The channels of each of `groups` have blocks of their own.
ChannelLayout PaddedLayout(int64_t channels, int lanes, int64_t groups = 1);

/// The arguments of a call that is being laid out, tuples flattened.
class LayoutArgs {
 public:
  virtual ~LayoutArgs() = default;
  virtual size_t size() const = 0;
  /// A layout in which argument `i` exists already, blocked where it exists so.
  virtual ChannelLayout LayoutOf(size_t i) const = 0;
  /// Argument `i` in `layout`; a transform is inserted where it doesn't exist yet.
  virtual Expr Get(size_t i, const ChannelLayout& layout) = 0;
  /// Argument `i` in its plain layout.
  Expr Plain(size_t i) { return Get(i, {}); }
  /// Whether a consumer of the call's result, direct or through operators that follow layouts, runs blocked.
  virtual bool HasBlockedConsumer() const = 0;
  /// Type of argument `i` in its plain layout.
  virtual const TensorTypeNode* Type(size_t i) const = 0;
  /// Floats in a vector of the machine.
  virtual int lanes() const = 0;
};

/// What becomes of operands' channels that only pad blocks.
enum class PaddingUse : uint8_t {
  kMixed,    ///< multiplied by zeros and summed up with others, which infinities and NaN there would spoil
  kApart,    ///< each channel of the result comes of the same channel of operands, or is one of them
  kNotRead,  ///< read by nothing
};

/// A call in a blocked layout; `layout` is that of its (only) result.
struct LaidOutCall {
  Expr expr;
  ChannelLayout layout;
  PaddingUse padding = PaddingUse::kMixed;
};

/// Rewrites a typed call into one on blocked activations, or gives nothing: then it runs in the plain layout.
using FLayoutRule = std::optional<LaidOutCall> (*)(const CallNode* call, LayoutArgs& args);
inline constexpr OpAttrKey<FLayoutRule> kLayoutRule{"FLayoutRule"};

}  // namespace treadle::relay
