// SPDX-License-Identifier: Apache-2.0
// Attributes of recurrent layers.
#pragma once

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class RecurrentAttrs : public AttrsNode {
 public:
  bool reverse = false;
  TREADLE_DECLARE_NODE(RecurrentAttrs, AttrsNode, "relay.attrs.RecurrentAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("reverse", &RecurrentAttrs::reverse).Doc("From the last step to the first");
  }
};

/// Of the form with packed weights (targets/cpu/kernels/recurrent.cc).
class PackedRecurrentAttrs : public AttrsNode {
 public:
  bool reverse = false;
  int64_t rows = 1;
  bool share_panels = false;
  TREADLE_DECLARE_NODE(PackedRecurrentAttrs, AttrsNode, "relay.attrs.PackedRecurrentAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("reverse", &PackedRecurrentAttrs::reverse).Doc("From the last step to the first");
    r.Field("rows", &PackedRecurrentAttrs::rows).Doc("Samples of a batch whose sums are in registers together");
    r.Field("share_panels", &PackedRecurrentAttrs::share_panels).Doc("Whether threads share the units of a step");
  }
};

}  // namespace treadle::ops
