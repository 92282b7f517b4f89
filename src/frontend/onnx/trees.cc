// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/trees.h"

#include <algorithm>
#include <cmath>

namespace treadle::onnx {
namespace {

using IntList = std::vector<int64_t>;
constexpr int64_t kMaxDepth = 256;
constexpr int64_t kMaxTableBytes = int64_t{1} << 30;

/// Levels below the roots; refuses trees whose nodes aren't numbered, or go round.
int64_t DepthOf(NodeImport& n, const Trees& trees) {
  IntList level(trees.roots);
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
  IntList features, yes, no, tests, missing;
  std::vector<double> splits, leaves(static_cast<size_t>(count * trees.outputs), nothing);
  for (int64_t i = 0; i < count; ++i) {
    const TreeNode& node = trees.nodes[static_cast<size_t>(i)];
    const bool leaf = node.test == TreeTest::kLeaf;
    features.push_back(leaf ? 0 : node.feature);
    yes.push_back(leaf ? i : node.yes);
    no.push_back(leaf ? i : node.no);
    tests.push_back(static_cast<int64_t>(node.test));
    missing.push_back(node.missing_is_yes ? 1 : 0);
    splits.push_back(node.split);
  }
  for (const TreeWeight& w : trees.weights) {
    double& sum = leaves[static_cast<size_t>(w.node * trees.outputs + w.output)];
    sum = !extreme || sum == nothing ? (extreme ? w.weight : sum + w.weight)
          : aggregate == "MIN"       ? std::min(sum, w.weight)
                                     : std::max(sum, w.weight);
  }
  const int64_t depth = DepthOf(n, trees);
  // (rows, trees): the node where each row is in each tree.
  Term at = BroadcastTo(IntVec(n, trees.roots).Expand(0),
                        Stack({DimOf(x, 0), IntNum(n, static_cast<int64_t>(trees.roots.size()))}));
  Term split_of(n, n.Const(ArrayOf(splits, {count}, x.dtype())));
  for (int64_t level = 0; level < depth; ++level) {
    auto of = [&](const IntList& list) { return IntVec(n, list).Take(at); };
    Term value(n, n.Call("gather", {x, of(features)}, {{"axis", int64_t{1}}}));
    Term split = split_of.Take(at), test = of(tests);
    std::optional<Term> passes;
    auto add = [&](TreeTest kind, const Term& result) {
      const bool used = std::count(tests.begin(), tests.end(), static_cast<int64_t>(kind)) != 0;
      if (!used) return;
      Term here = (test == static_cast<double>(kind)) && result;
      passes = passes ? *passes || here : here;
    };
    add(TreeTest::kLessEqual, value <= split);
    add(TreeTest::kLess, value < split);
    add(TreeTest::kGreaterEqual, value >= split);
    add(TreeTest::kGreater, value > split);
    add(TreeTest::kEqual, value == split);
    add(TreeTest::kNotEqual, value != split);
    if (std::count(missing.begin(), missing.end(), 1) != 0) {
      Term nan = value.Op("isnan") && of(missing) == 1.0;
      passes = passes ? *passes || nan : nan;
    }
    at = passes->Select(of(yes), of(no));
  }
  Term leaf(n, n.Const(ArrayOf(leaves, {count, trees.outputs}, x.dtype())));
  Term all = leaf.Take(at);  // (rows, trees, outputs)
  if (extreme) return all.Reduce(aggregate == "MIN" ? "min" : "max", {1});
  Term sum = all.Sum({1});
  return aggregate == "SUM" ? sum : sum * (1.0 / static_cast<double>(trees.roots.size()));
}

}  // namespace treadle::onnx
