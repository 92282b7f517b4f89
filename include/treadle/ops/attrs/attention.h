// SPDX-License-Identifier: Apache-2.0
// Attributes of attention.
#pragma once

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class AttentionAttrs : public AttrsNode {
 public:
  double scale = 1;
  TREADLE_DECLARE_NODE(AttentionAttrs, AttrsNode, "relay.attrs.AttentionAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("scale", &AttentionAttrs::scale).Doc("Factor of the products of queries and keys");
  }
};

}  // namespace treadle::ops
