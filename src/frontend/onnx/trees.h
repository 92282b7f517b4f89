// SPDX-License-Identifier: Apache-2.0
// Decision trees: tree_leaves finds the leaves, whose weights are then summed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontend/onnx/compose.h"

namespace treadle::onnx {

/// As TreeEnsemble-5 numbers them; a leaf has no test.
enum class TreeTest : uint8_t { kLessEqual, kLess, kGreaterEqual, kGreater, kEqual, kNotEqual, kMember, kLeaf };

struct TreeNode {
  TreeTest test = TreeTest::kLeaf;
  int64_t feature = 0;
  double split = 0;
  bool missing_is_yes = false;  ///< what a NaN does
  int64_t yes = 0, no = 0;      ///< nodes
};
/// What a leaf adds to an output.
struct TreeWeight {
  int64_t node, output;
  double weight;
};
struct Trees {
  std::vector<TreeNode> nodes;
  std::vector<int64_t> roots;
  std::vector<TreeWeight> weights;
  int64_t outputs = 1;
};

/// The attributes of TreeEnsemble-5.
struct TreeLists {
  std::vector<int64_t> roots, features, modes, yes, no, yes_leaf, no_leaf, missing, leaf_targets;
  std::vector<double> splits, members, leaf_weights;
};
Trees MakeTrees(NodeImport& n, const TreeLists& lists, int64_t outputs);

/// (rows, outputs) from x (rows, features); `aggregate` is SUM, AVERAGE, MIN or MAX.
Term EvaluateTrees(NodeImport& n, const Trees& trees, const Term& x, const std::string& aggregate);

}  // namespace treadle::onnx
