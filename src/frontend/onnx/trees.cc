// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/trees.h"

#include <algorithm>
#include <cmath>

#include "frontend/onnx/checked_values.h"

namespace treadle::onnx {
namespace {

using IntList = std::vector<int64_t>;
constexpr int64_t kMaxDepth = 256;
constexpr int64_t kMaxTableBytes = int64_t{1} << 30;

/// Levels below a root; refuses trees whose nodes aren't numbered, or go round.
int64_t DepthOf(NodeImport& n, const Trees& trees, int64_t root) {
  IntList level{root};
  const auto count = static_cast<int64_t>(trees.nodes.size());
  for (int64_t depth = 0; depth <= kMaxDepth; ++depth) {
    IntList next;
    for (int64_t i : level) {
      if (i < 0 || i >= count) n.Invalid(StrCat("a tree has no node ", i));
      const TreeNode& node = trees.nodes[static_cast<size_t>(i)];
      if (node.test == TreeTest::kLeaf) continue;
      next.push_back(node.yes);
      next.push_back(node.no);
    }
    if (next.empty()) return depth;
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    level = next;
  }
  n.Unsupported(StrCat("trees of more than ", kMaxDepth, " levels aren't implemented"));
}

/// Features that aren't known to be columns of `x` are checked when the model runs.
void CheckFeatures(NodeImport& n, const Trees& trees, const Term& x) {
  const int64_t* columns = AsConstInt(x.shape()[1]);
  for (const TreeNode& node : trees.nodes) {
    if (node.test == TreeTest::kLeaf) continue;
    if (node.feature < 0 || (columns != nullptr && node.feature >= *columns)) {
      const std::string expected = columns != nullptr ? StrCat("0 to ", *columns - 1) : "0 or more";
      n.Invalid(StrCat("a node tests feature ", node.feature, ", expected ", expected));
    }
  }
}

/// Every node's weight for every output is one table.
void CheckTableSize(NodeImport& n, int64_t nodes, int64_t outputs) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(nodes, outputs, &bytes) || __builtin_mul_overflow(bytes, int64_t{8}, &bytes) ||
      bytes > kMaxTableBytes) {
    n.Unsupported(StrCat(outputs, " outputs of ", nodes, " nodes: tables of more than ", kMaxTableBytes >> 20,
                         " MiB aren't implemented"));
  }
}

/// (rows, trees): the node where each row ends in each tree.
Term Leaves(NodeImport& n, const Trees& trees, const Term& x) {
  IntList features, children, kinds, depths, tests;
  std::vector<double> splits;
  bool missing = false;
  for (size_t i = 0; i < trees.nodes.size(); ++i) {
    const TreeNode& node = trees.nodes[i];
    const bool leaf = node.test == TreeTest::kLeaf;
    const auto self = static_cast<int64_t>(i), test = static_cast<int64_t>(node.test);
    if (!leaf && std::find(tests.begin(), tests.end(), test) == tests.end()) tests.push_back(test);
    features.push_back(leaf ? 0 : node.feature);
    children.push_back(leaf ? self : node.yes);
    children.push_back(leaf ? self : node.no);
    kinds.push_back(leaf ? 0 : test + (node.missing_is_yes ? 8 : 0));
    missing = missing || (!leaf && node.missing_is_yes);
    splits.push_back(node.split);
  }
  for (int64_t root : trees.roots) depths.push_back(DepthOf(n, trees, root));
  const int64_t depth = *std::max_element(depths.begin(), depths.end());
  const auto count = static_cast<int64_t>(trees.nodes.size());
  auto list = [&](const IntList& values) { return Term(n, n.IntVector(values, DataType::Int(32))); };
  // A tree that is a leaf tests nothing, but loads.
  Term columns = list(features);
  if (AsConstInt(x.shape()[1]) == nullptr) {
    columns = Term(n, CheckedValues(n, IntVec(n, features), "index", DimOf(x, 1), "feature"));
  }
  Term pairs(n, n.Const(ArrayOf(children, {count, 2}, DataType::Int(32))));
  Term limits(n, n.Const(ArrayOf(splits, {count}, x.dtype())));
  return {n, n.Call("tree_leaves", {x, list(trees.roots), list(depths), columns, limits, pairs, list(kinds)},
                    {{"depth", depth}, {"tests", tests}, {"missing", missing}})};
}

}  // namespace

Trees MakeTrees(NodeImport& n, const TreeLists& lists, int64_t outputs) {
  const size_t count = lists.features.size(), leaves = lists.leaf_weights.size();
  if (lists.splits.size() != count || lists.modes.size() != count || lists.yes.size() != count ||
      lists.no.size() != count || lists.yes_leaf.size() != count || lists.no_leaf.size() != count ||
      (!lists.missing.empty() && lists.missing.size() != count) || lists.leaf_targets.size() != leaves) {
    n.Invalid("the lists of nodes or leaves differ in length");
  }
  Trees trees;
  trees.outputs = outputs;
  // Nodes, then leaves, then the further tests of nodes that look for a member.
  trees.nodes.resize(count + leaves);
  auto target = [&](int64_t index, bool is_leaf) {
    if (index < 0 || static_cast<size_t>(index) >= (is_leaf ? leaves : count))
      n.Invalid(StrCat("there is no node ", index));
    return index + (is_leaf ? static_cast<int64_t>(count) : 0);
  };
  size_t member = 0;
  for (size_t i = 0; i < count; ++i) {
    if (lists.modes[i] < 0 || lists.modes[i] > 6) n.Invalid(StrCat("a node's mode is ", lists.modes[i]));
    TreeNode node{static_cast<TreeTest>(lists.modes[i]),
                  lists.features[i],
                  lists.splits[i],
                  !lists.missing.empty() && lists.missing[i] != 0,
                  target(lists.yes[i], lists.yes_leaf[i] != 0),
                  target(lists.no[i], lists.no_leaf[i] != 0)};
    if (node.test != TreeTest::kMember) {
      trees.nodes[i] = node;
      continue;
    }
    std::vector<double> values;
    while (member < lists.members.size() && !std::isnan(lists.members[member]))
      values.push_back(lists.members[member++]);
    ++member;
    if (values.empty()) n.Invalid("a node tests for none of 'membership_values'");
    // A chain: equal to the first value, or to the next, ..
    node.test = TreeTest::kEqual;
    const int64_t last_no = node.no;
    size_t at = i;
    for (size_t k = 0; k < values.size(); ++k) {
      node.split = values[k];
      node.no = k + 1 < values.size() ? static_cast<int64_t>(trees.nodes.size()) : last_no;
      trees.nodes[at] = node;
      if (k + 1 == values.size()) break;
      at = trees.nodes.size();
      trees.nodes.emplace_back();
    }
  }
  for (size_t i = 0; i < leaves; ++i) {
    if (lists.leaf_targets[i] < 0 || lists.leaf_targets[i] >= outputs) n.Invalid("a leaf's target is out of range");
    trees.weights.push_back({static_cast<int64_t>(count + i), lists.leaf_targets[i], lists.leaf_weights[i]});
  }
  for (int64_t root : lists.roots) {
    const bool in_range = root >= 0 && static_cast<size_t>(root) < count;
    if (!in_range) n.Invalid(StrCat("there is no node ", root));
    const auto r = static_cast<size_t>(root);
    const bool leaf = lists.yes_leaf[r] != 0 && lists.no_leaf[r] != 0 && lists.yes[r] == lists.no[r];
    trees.roots.push_back(leaf ? target(lists.yes[r], true) : root);
  }
  return trees;
}

Term EvaluateTrees(NodeImport& n, const Trees& trees, const Term& x, const std::string& aggregate) {
  if (x.rank() != 2) n.Invalid(StrCat("the operand has rank ", x.rank(), ", expected 2"));
  if (trees.roots.empty() || trees.outputs < 1) n.Invalid("there are no trees, or no outputs");
  if (aggregate != "SUM" && aggregate != "AVERAGE" && aggregate != "MIN" && aggregate != "MAX") {
    n.Invalid(StrCat("the aggregate function is ", QuoteName(aggregate)));
  }
  const auto count = static_cast<int64_t>(trees.nodes.size());
  CheckFeatures(n, trees, x);
  CheckTableSize(n, count, trees.outputs);
  const bool extreme = aggregate == "MIN" || aggregate == "MAX";
  const double nothing = !extreme ? 0 : (aggregate == "MIN" ? 1 : -1) * 3.4028234663852886e38;
  std::vector<double> leaves(static_cast<size_t>(count * trees.outputs), nothing);
  for (const TreeWeight& w : trees.weights) {
    double& sum = leaves[static_cast<size_t>(w.node * trees.outputs + w.output)];
    sum = !extreme || sum == nothing ? (extreme ? w.weight : sum + w.weight)
          : aggregate == "MIN"       ? std::min(sum, w.weight)
                                     : std::max(sum, w.weight);
  }
  Term at = Leaves(n, trees, x);
  Term leaf(n, n.Const(ArrayOf(leaves, {count, trees.outputs}, x.dtype())));
  Term all = leaf.Op("take", at, {{"axis", int64_t{0}}, {"mode", std::string("fast")}});  // (rows, trees, outputs)
  if (extreme) return all.Reduce(aggregate == "MIN" ? "min" : "max", {1});
  Term sum = all.Sum({1});
  return aggregate == "SUM" ? sum : sum * (1.0 / static_cast<double>(trees.roots.size()));
}

}  // namespace treadle::onnx
