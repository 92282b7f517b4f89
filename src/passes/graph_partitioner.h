// SPDX-License-Identifier: Apache-2.0
// Divides a forward graph into the groups that become one kernel each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "relay/analysis/dominators.h"
#include "relay/analysis/indexed_graph.h"

namespace treadle::relay {

struct FusionOptions {
  int opt_level = 1;         ///< 0: each operator is a group of its own
  int64_t max_depth = 256;   ///< most nodes of a group
  int64_t max_args = 0;      ///< most parameters plus results of a fused function; 0: any number
  bool link_params = false;  ///< non-scalar constants live inside the fused functions
};

/// Why a node didn't join the group of its post-dominator.
struct FusionRejection {
  int node;
  int dominator;  ///< -1: none
  std::string reason;
};

/// Groups as a union-find forest over the nodes of the graph.
///
/// Three rounds over the nodes: first complex operators take in what follows them element-wise, and element-wise and
/// broadcast operators join their post-dominator; then injective operators and tuples; then what feeds a tuple that
/// was taken in. A node joins together with everything on the paths to its post-dominator, so that a group has one
/// node through which all its values leave. Each check is bounded by max_depth nodes; total cost near-linear.
class GraphPartitioner {
 public:
  GraphPartitioner(const IndexedForwardGraph& graph, const FusionOptions& options);

  /// Representative of the group of node `index`. It is the node whose value the group produces.
  int Root(int index) const;
  /// One entry per computing node that stayed apart from its consumers, in node order.
  std::vector<FusionRejection> Rejections() const;

 private:
  struct Group {
    int parent = -1;  ///< -1: is a root
    OpPatternKind pattern;
    bool has_anchor = false;  ///< holds an operator with a complex compute rule
    int64_t num_nodes = 1;
  };

  void RunPhase(int phase);
  /// "" when node `index` was fused or isn't to be looked at in this phase, else the reason why not.
  std::string TryFuse(int index, int sink, int phase);
  std::string TryFuseByPattern(int index, int sink, int phase);
  std::string TryFuseIntoTuple(int index, int sink);
  std::string TryCommit(int index, int sink);
  /// Nodes on the paths from `source` to `sink` without both, or false when the group would exceed max_depth.
  bool CollectPath(int source, int sink);
  /// The first pattern on the paths collected (or of the sink) above the given bounds, described; "" if none.
  std::string CheckPath(int sink, OpPatternKind inner_bound, OpPatternKind sink_bound) const;
  int64_t CountArgsAfterMerge(int source, int sink);
  void Merge(int child, int parent);

  const IndexedForwardGraph& graph_;
  FusionOptions options_;
  std::vector<DominatorNode> dominators_;
  mutable std::vector<Group> groups_;
  std::vector<std::vector<int>> members_;    ///< per root: its nodes; only kept when arguments are limited
  std::vector<std::vector<int>> producers_;  ///< per node: what it reads; only kept when arguments are limited
  std::vector<int> visited_;                 ///< round in which the node was met last
  int round_ = 0;
  std::vector<int> path_;
  std::vector<std::string> reasons_;
};

}  // namespace treadle::relay
