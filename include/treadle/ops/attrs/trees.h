// SPDX-License-Identifier: Apache-2.0
// Attributes of decision trees.
#pragma once

#include <cstdint>
#include <vector>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class TreeLeavesAttrs : public AttrsNode {
 public:
  int64_t depth = 0;
  std::vector<int64_t> tests;
  bool missing = false;
  TREADLE_DECLARE_NODE(TreeLeavesAttrs, AttrsNode, "relay.attrs.TreeLeavesAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("depth", &TreeLeavesAttrs::depth).Doc("Levels of the deepest tree below its root");
    r.Field("tests", &TreeLeavesAttrs::tests)
        .Doc("Tests that occur: 0 <=, 1 <, 2 >=, 3 >, 4 ==, 5 !=; with one only, the nodes' kinds aren't looked at");
    r.Field("missing", &TreeLeavesAttrs::missing).Doc("Whether some nodes let NaN pass");
  }
};

}  // namespace treadle::ops
