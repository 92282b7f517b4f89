// SPDX-License-Identifier: Apache-2.0
#include "relay/analysis/dominators.h"

#include <algorithm>

namespace treadle::relay {
namespace {

/// The tree under construction. Slot 0 is a virtual root above all roots of the forest; node i has slot i + 1.
/// Each slot keeps its parent and one longer jump upwards (Myers: An applicative random-access stack), with the
/// highest pattern of the edges it skips.
class SkipTree {
 public:
  explicit SkipTree(size_t nodes) : slots_(nodes + 1) {}

  void Add(int slot, int parent, OpPatternKind pattern) {
    Slot& s = slots_[slot];
    const Slot& p = slots_[parent];
    const Slot& jump = slots_[p.jump];
    s.parent = parent;
    s.depth = p.depth + 1;
    s.pattern = pattern;
    if (parent != 0 && p.depth - jump.depth == jump.depth - slots_[jump.jump].depth) {
      s.jump = jump.jump;
      s.jump_pattern = std::max({pattern, p.jump_pattern, jump.jump_pattern});
    } else {
      s.jump = parent;
      s.jump_pattern = pattern;
    }
  }
  int depth(int slot) const { return slots_[slot].depth; }

  /// The lowest common ancestor; raises `pattern` to those of the edges on the way from both.
  int CommonAncestor(int a, int b, OpPatternKind* pattern) const {
    if (depth(a) < depth(b)) std::swap(a, b);
    while (depth(a) > depth(b)) {
      a = depth(slots_[a].jump) >= depth(b) ? Jump(a, pattern) : Step(a, pattern);
    }
    while (a != b) {
      // Slots of equal depth have jumps of equal length.
      if (slots_[a].jump != slots_[b].jump) {
        a = Jump(a, pattern);
        b = Jump(b, pattern);
      } else {
        a = Step(a, pattern);
        b = Step(b, pattern);
      }
    }
    return a;
  }

 private:
  struct Slot {
    int parent = 0, depth = 0, jump = 0;
    OpPatternKind pattern = OpPatternKind::kElemWise;
    OpPatternKind jump_pattern = OpPatternKind::kElemWise;
  };
  int Jump(int slot, OpPatternKind* pattern) const {
    *pattern = MaxPattern(*pattern, slots_[slot].jump_pattern);
    return slots_[slot].jump;
  }
  int Step(int slot, OpPatternKind* pattern) const {
    *pattern = MaxPattern(*pattern, slots_[slot].pattern);
    return slots_[slot].parent;
  }
  std::vector<Slot> slots_;
};

}  // namespace

std::vector<DominatorNode> PostDominators(const IndexedForwardGraph& graph) {
  const auto& nodes = graph.nodes();
  std::vector<DominatorNode> result(nodes.size());
  SkipTree tree(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {
    OpPatternKind pattern = OpPatternKind::kOpaque;
    int ancestor = 0;
    if (!nodes[i].extern_ref && !nodes[i].outputs.empty()) {
      pattern = OpPatternKind::kElemWise;
      bool first = true;
      for (const ForwardEdge& edge : nodes[i].outputs) {
        pattern = MaxPattern(pattern, edge.pattern);
        if (first) {
          ancestor = edge.consumer + 1;
        } else if (ancestor != 0) {
          ancestor = tree.CommonAncestor(ancestor, edge.consumer + 1, &pattern);
        }
        first = false;
      }
    }
    int slot = static_cast<int>(i) + 1;
    tree.Add(slot, ancestor, pattern);
    result[i] = {ancestor - 1, tree.depth(slot), pattern};
  }
  return result;
}

}  // namespace treadle::relay
