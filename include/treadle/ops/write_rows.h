// SPDX-License-Identifier: Apache-2.0
// nn.contrib_write_rows, and what executors ask of operators that can work on a state in place.
#pragma once

#include "treadle/ir/attrs.h"
#include "treadle/ir/op.h"

namespace treadle::ops {

/// True: where the result lies in the memory of operand 0, the kernel touches only what it changes.
inline constexpr OpAttrKey<bool> kUpdatesOperand{"TUpdatesOperand"};

class WriteRowsAttrs : public AttrsNode {
 public:
  int axis = -2;
  bool circular = false;
  TREADLE_DECLARE_NODE(WriteRowsAttrs, AttrsNode, "relay.attrs.WriteRowsAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &WriteRowsAttrs::axis).Doc("Dimension of the rows; not the first, which is that of samples");
    r.Field("circular", &WriteRowsAttrs::circular)
        .Doc("After the last row comes the first; else rows beyond are dropped");
  }
};

}  // namespace treadle::ops
