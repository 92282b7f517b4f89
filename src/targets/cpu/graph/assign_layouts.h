// SPDX-License-Identifier: Apache-2.0
// Blocks of channels, and with them algorithms, of a whole graph chosen together. Layouts are first planned one call
// after the other, in each the cheapest (plan_layout.cc). Where channels don't divide into the largest blocks, what is
// cheapest for one call may cost its neighbours more: then the costs of all calls in all blocks, and of changing blocks
// between them, are one problem that is solved (schedule/pbqp.h), and the graph is planned again with its solution.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "treadle/relay/layout.h"
#include "treadle/schedule/machine.h"

namespace treadle::relay {

/// A call that runs in a layout of its own, as it was planned.
struct LaidCall {
  const CallNode* call = nullptr;
  std::vector<Expr> args;           ///< tuples flattened
  std::vector<ChannelLayout> seen;  ///< in which each argument was said to exist
  std::vector<ChannelLayout> read;  ///< in which it is read
  Expr result;                      ///< what became of it
  ChannelLayout out;
  PaddingUse padding = PaddingUse::kMixed;
  bool by_kernel = false;         ///< else by the operator's rule
  bool blocked_consumer = false;  ///< LayoutArgs::HasBlockedConsumer
};

/// What was planned for a graph.
struct LayoutTrace {
  std::vector<LaidCall> calls;  ///< those that make an argument before those that read it
  /// Values that others read in the plain layout.
  std::unordered_set<const Object*> plain;
  /// Values made of others in place: parts of a split, shuffled channels.
  struct InPlace {
    ChannelLayout layout;
    const Object* of = nullptr;
  };
  std::unordered_map<const Object*, InPlace> in_place;
  /// What they are made of.
  std::unordered_set<const Object*> pinned;
};

struct AssignedLayouts {
  std::vector<ChannelLayout> seen;  ///< what LayoutArgs::LayoutOf says of each argument
  ChannelLayout out;                ///< of a convolution's result
};
using LayoutAssignment = std::unordered_map<const CallNode*, AssignedLayouts>;

/// Layouts for all calls of the trace that are cheaper together by the cost models; empty where none are for certain.
LayoutAssignment AssignLayouts(const LayoutTrace& trace, const schedule::Machine& machine);

}  // namespace treadle::relay
