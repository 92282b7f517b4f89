// SPDX-License-Identifier: Apache-2.0
// Post-dominators of a forward graph (Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm; on a DAG one
// reverse pass is exact), with the patterns of all paths to them.
#pragma once

#include <string>
#include <vector>

#include "relay/analysis/indexed_graph.h"

namespace treadle::relay {

struct DominatorNode {
  int parent = -1;  ///< the node's immediate post-dominator: all its values' uses lead there; -1: none
  int depth = 1;    ///< distance from the root of its tree, 1 at the root
  /// The highest pattern among its uses and the tree edges between its consumers and the parent.
  OpPatternKind pattern = OpPatternKind::kOpaque;
};

/// The forest of immediate post-dominators; entry i belongs to node i of the graph. A node whose value is visible
/// outside data flow is a root. The common ancestor of a node's consumers is found over skip links, so that the
/// whole takes O(edges * log nodes) instead of walking up step by step.
std::vector<DominatorNode> PostDominators(const IndexedForwardGraph& graph);

}  // namespace treadle::relay
