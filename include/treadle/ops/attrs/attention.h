// SPDX-License-Identifier: Apache-2.0
// Attributes of attention.
#pragma once

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class AttentionAttrs : public AttrsNode {
 public:
  double scale = 1;
  bool zero_masked_rows = false;
  int64_t key_block = 0;
  TREADLE_DECLARE_NODE(AttentionAttrs, AttrsNode, "relay.attrs.AttentionAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("scale", &AttentionAttrs::scale).Doc("Factor of the products of queries and keys");
    r.Field("zero_masked_rows", &AttentionAttrs::zero_masked_rows)
        .Doc("Queries that see no key (scores of -inf only, or one of NaN) give 0, not NaN");
    r.Field("key_block", &AttentionAttrs::key_block)
        .Doc("Keys whose softmax is taken at a time, where keys are packed; they are a multiple. 0: all");
  }
};

}  // namespace treadle::ops
