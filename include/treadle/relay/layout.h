// SPDX-License-Identifier: Apache-2.0
// Layouts of activations, and the rule by which an operator says in which layouts it can run.
//
// A layout names the dimensions of a tensor: upper case for whole dimensions, a number and a lower-case letter for
// the inner part of a split one. "NCHW16c" has shape (N, C/16, H, W, 16). Channels that don't divide into blocks fill
// the last one with zeros, or whatever finite number becomes of them.
//
// "NCHW16c*4" has the channels in 4 groups of equal size, each of which has whole blocks. "NCHW16c%4" has the same
// form, but channel c of the tensor is number c / 4 of group c % 4: so channels are shuffled (ShuffleNet, Zhang et al.
// 2017) without moving any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "treadle/relay/expr.h"

namespace treadle::relay {

/// The arguments of a call that is being laid out, tuples flattened.
class LayoutArgs {
 public:
  virtual ~LayoutArgs() = default;
  virtual size_t size() const = 0;
  /// Layout in which argument `i` exists already: "NCHW..c" or "" for the plain one.
  virtual std::string Layout(size_t i) const = 0;
  /// Argument `i` in `layout` ("": plain); a transform is inserted where it doesn't exist yet.
  virtual Expr Get(size_t i, const std::string& layout) = 0;
  /// Whether something that reads the call's result, directly or through operators that follow layouts, runs blocked.
  virtual bool ReadBlocked() const = 0;
  /// Type of argument `i` in its plain layout.
  virtual const TensorTypeNode* Type(size_t i) const = 0;
  /// Floats in a vector of the machine.
  virtual int lanes() const = 0;
};

/// A call in a blocked layout; `layout` is that of its (only) result.
struct LaidOutCall {
  Expr expr;
  std::string layout;
};

/// Rewrites a typed call into one on blocked activations, or gives nothing: then it runs in the plain layout.
using FLayoutRule = std::optional<LaidOutCall> (*)(const CallNode* call, LayoutArgs& args);
inline constexpr OpAttrKey<FLayoutRule> kLayoutRule{"FLayoutRule"};

/// The blocked form of the NCHW layout for `channels`: "NCHW16c", "NCHW8c", or "" where channels divide by neither.
std::string BlockedLayout(int64_t channels);
/// As BlockedLayout, but channels that don't divide may be filled up to whole blocks where that costs less than it
/// gains on vectors of `lanes` floats; "" where it doesn't. The channels of each of `groups` have blocks of their own.
std::string FilledLayout(int64_t channels, int lanes, int64_t groups = 1);

/// The number in a blocked layout: 16 of "NCHW16c".
int64_t BlockOf(const std::string& layout);
/// The layout without groups: "NCHW16c" of "NCHW16c*4".
std::string WithoutGroups(const std::string& layout);
/// Whether channels are in the order of the tensor, all but the last block being whole.
bool IsInOrder(const std::string& layout);
/// Channels that a tensor of `channels` has in `layout`: whole blocks.
int64_t ChannelsIn(const std::string& layout, int64_t channels);
/// Whether some channels in `layout` only fill blocks.
bool IsFilled(const std::string& layout, int64_t channels);
/// The place in `layout` of each channel.
std::vector<int64_t> ChannelPlaces(const std::string& layout, int64_t channels);
/// The layout of a tensor in `layout` whose channels are taken as (groups, channels / groups) and transposed; "" where
/// there is none.
std::string ShuffledLayout(const std::string& layout, int64_t channels, int64_t groups);

}  // namespace treadle::relay
