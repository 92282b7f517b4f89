// SPDX-License-Identifier: Apache-2.0
#include "passes/graph_partitioner.h"

#include <algorithm>
#include <unordered_set>

namespace treadle::relay {
namespace {

constexpr const char* kReadAtPlaces = "a consumer reads it at places that it computes";

/// Arguments that a value takes in a kernel's signature: one per tensor, one more per unknown dimension, and as many
/// strides as it has dimensions when one is unknown.
int64_t CountSignatureArgs(const Type& type) {
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    int64_t count = 0;
    for (const Type& field : tuple->fields) count += CountSignatureArgs(field);
    return count;
  }
  const auto* tensor = type.as<TensorTypeNode>();
  if (tensor == nullptr) return 1;
  int64_t unknown = 0;
  for (const PrimExpr& dim : tensor->shape) unknown += AsConstInt(dim) == nullptr ? 1 : 0;
  return 1 + unknown + (unknown != 0 ? static_cast<int64_t>(tensor->shape.size()) : 0);
}

}  // namespace

GraphPartitioner::GraphPartitioner(const IndexedForwardGraph& graph, const FusionOptions& options)
    : graph_(graph),
      options_(options),
      dominators_(PostDominators(graph)),
      visited_(graph.size(), 0),
      reasons_(graph.size()) {
  for (const ForwardNode& node : graph.nodes()) {
    Group group;
    group.pattern = node.pattern;
    group.has_anchor = node.pattern == OpPatternKind::kOutEWiseFusable;
    groups_.push_back(group);
  }
  if (options_.opt_level == 0) return;
  if (options_.max_args > 0) {
    producers_.resize(graph.size());
    members_.resize(graph.size());
    for (size_t i = 0; i < graph.size(); ++i) {
      members_[i].push_back(static_cast<int>(i));
      for (const ForwardEdge& edge : graph.nodes()[i].outputs) producers_[edge.consumer].push_back(static_cast<int>(i));
    }
  }
  for (int phase = 0; phase < 3; ++phase) RunPhase(phase);
}

int GraphPartitioner::Root(int index) const {
  int root = index;
  while (groups_[root].parent >= 0) root = groups_[root].parent;
  while (groups_[index].parent >= 0) {
    int next = groups_[index].parent;
    groups_[index].parent = root;
    index = next;
  }
  return root;
}

void GraphPartitioner::RunPhase(int phase) {
  for (int i = 0; i < static_cast<int>(graph_.size()); ++i) {
    if (groups_[i].pattern == OpPatternKind::kOpaque) continue;
    int sink = dominators_[i].parent;
    if (sink < 0) continue;
    std::string reason = TryFuse(i, sink, phase);
    if (!reason.empty()) reasons_[i] = std::move(reason);
  }
}

std::string GraphPartitioner::TryFuse(int index, int sink, int phase) {
  if (!CollectPath(index, sink)) return StrCat("the function would exceed the depth limit of ", options_.max_depth);
  if (phase == 2) return TryFuseIntoTuple(index, sink);
  if (Root(index) == Root(sink)) return "";
  if (groups_[sink].pattern == OpPatternKind::kTuple) return "its consumers meet in a tuple that isn't fused itself";
  return TryFuseByPattern(index, sink, phase);
}

std::string GraphPartitioner::TryFuseByPattern(int index, int sink, int phase) {
  OpPatternKind pattern = groups_[index].pattern;
  OpPatternKind accumulated = dominators_[index].pattern;
  std::string blocked;
  if (pattern == OpPatternKind::kOutEWiseFusable) {
    if (phase != 0) return "";
    if (accumulated != OpPatternKind::kElemWise) {
      return StrCat("a complex operator takes in element-wise consumers only, these are ", PatternName(accumulated));
    }
    blocked = CheckPath(sink, OpPatternKind::kBroadcast, OpPatternKind::kBroadcast);
  } else if (pattern <= OpPatternKind::kBroadcast) {
    if (accumulated > OpPatternKind::kCommReduce) {
      return StrCat("its consumers are ", PatternName(accumulated), ", at most comm_reduce can take it in");
    }
    blocked = CheckPath(sink, OpPatternKind::kInjective, OpPatternKind::kOutEWiseFusable);
  } else if (pattern == OpPatternKind::kInjective || pattern == OpPatternKind::kTuple) {
    if (phase != 1) return "";
    if (accumulated == OpPatternKind::kOpaque) return kReadAtPlaces;
    blocked = CheckPath(sink, OpPatternKind::kInjective, OpPatternKind::kInjective);
  } else {
    return "a reduction isn't fused into its consumer";
  }
  return blocked.empty() ? TryCommit(index, sink) : blocked;
}

std::string GraphPartitioner::TryFuseIntoTuple(int index, int sink) {
  if (groups_[index].pattern > OpPatternKind::kInjective) return "";
  OpPatternKind root_pattern = groups_[Root(sink)].pattern;
  // A tuple that is the group's own result stays outside of functions.
  if (groups_[sink].pattern != OpPatternKind::kTuple || root_pattern > OpPatternKind::kInjective) return "";
  if (Root(index) == Root(sink)) return "";
  if (dominators_[index].pattern == OpPatternKind::kOpaque) return kReadAtPlaces;
  std::string blocked = CheckPath(sink, OpPatternKind::kInjective, OpPatternKind::kInjective);
  return blocked.empty() ? TryCommit(index, sink) : blocked;
}

bool GraphPartitioner::CollectPath(int source, int sink) {
  ++round_;
  path_.clear();
  int64_t count = groups_[Root(sink)].num_nodes + groups_[source].num_nodes;
  if (count > options_.max_depth) return false;
  visited_[source] = visited_[sink] = round_;
  std::vector<int> stack{source};
  while (!stack.empty()) {
    int node = stack.back();
    stack.pop_back();
    for (const ForwardEdge& edge : graph_.nodes()[node].outputs) {
      if (visited_[edge.consumer] == round_) continue;
      visited_[edge.consumer] = round_;
      count += groups_[edge.consumer].num_nodes;
      if (count > options_.max_depth) return false;
      path_.push_back(edge.consumer);
      stack.push_back(edge.consumer);
    }
  }
  return true;
}

std::string GraphPartitioner::CheckPath(int sink, OpPatternKind inner_bound, OpPatternKind sink_bound) const {
  auto describe = [&](int node, OpPatternKind pattern, OpPatternKind bound) {
    return StrCat("the group of ", DescribeNode(graph_.nodes()[node].ref), " (node ", node, ") is ",
                  PatternName(pattern), ", above ", PatternName(bound));
  };
  for (int node : path_) {
    OpPatternKind pattern = groups_[Root(node)].pattern;
    if (pattern > inner_bound) return describe(node, pattern, inner_bound);
  }
  OpPatternKind pattern = groups_[Root(sink)].pattern;
  return pattern > sink_bound ? describe(sink, pattern, sink_bound) : "";
}

std::string GraphPartitioner::TryCommit(int index, int sink) {
  if (options_.max_args > 0) {
    int64_t args = CountArgsAfterMerge(index, sink);
    if (args > options_.max_args) {
      return StrCat("the function would have ", args, " arguments and results, more than ", options_.max_args);
    }
  }
  Merge(index, sink);
  for (int node : path_) Merge(node, sink);
  return "";
}

int64_t GraphPartitioner::CountArgsAfterMerge(int source, int sink) {
  std::unordered_set<int> roots{Root(source), Root(sink)};
  for (int node : path_) roots.insert(Root(node));
  std::unordered_set<int> inputs;
  int64_t count = CountSignatureArgs(graph_.nodes()[Root(sink)].ref->checked_type());
  for (int root : roots) {
    for (int member : members_[root]) {
      for (int producer : producers_[member]) {
        if (roots.count(Root(producer)) != 0 || !inputs.insert(producer).second) continue;
        const ExprNode* value = graph_.nodes()[producer].ref;
        if (options_.link_params && value->IsInstance<ConstantNode>()) continue;
        count += CountSignatureArgs(value->checked_type());
      }
    }
  }
  return count;
}

void GraphPartitioner::Merge(int child, int parent) {
  child = Root(child);
  parent = Root(parent);
  if (child == parent) return;
  Group& from = groups_[child];
  Group& to = groups_[parent];
  to.num_nodes += from.num_nodes;
  from.parent = parent;
  if (from.has_anchor) {
    TREADLE_ICHECK(!to.has_anchor) << "two groups with a complex operator each can't merge";
    TREADLE_ICHECK(to.pattern <= OpPatternKind::kBroadcast)
        << "a complex operator can't join a group that is " << PatternName(to.pattern);
    to.has_anchor = true;
    to.pattern = MaxPattern(from.pattern, to.pattern);
  }
  if (!members_.empty()) {
    auto& members = members_[parent];
    auto& joining = members_[child];
    if (members.size() < joining.size()) members.swap(joining);
    members.insert(members.end(), joining.begin(), joining.end());
    joining = {};
  }
}

std::vector<FusionRejection> GraphPartitioner::Rejections() const {
  std::vector<FusionRejection> result;
  for (int i = 0; i < static_cast<int>(graph_.size()); ++i) {
    const ForwardNode& node = graph_.nodes()[i];
    bool computes = node.ref->IsInstance<CallNode>() || node.ref->IsInstance<TupleGetItemNode>();
    if (!computes || Root(i) != i || (node.outputs.empty() && node.extern_ref)) continue;
    std::string reason = reasons_[i];
    int sink = dominators_[i].parent;
    if (options_.opt_level == 0) {
      reason = "fusion is off (level 0)";
    } else if (node.pattern == OpPatternKind::kOpaque) {
      reason = "it is opaque";
    } else if (node.extern_ref) {
      reason = "its value is used outside data flow (a result, let, branch or callee)";
    } else if (sink < 0) {
      reason = "its uses don't meet in one later value";
    } else if (reason.empty()) {
      reason = "its consumers can't take it in";
    }
    result.push_back({i, sink, std::move(reason)});
  }
  return result;
}

}  // namespace treadle::relay
