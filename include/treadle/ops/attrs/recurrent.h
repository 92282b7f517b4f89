// SPDX-License-Identifier: Apache-2.0
// Attributes of recurrent layers.
#pragma once

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class RecurrentAttrs : public AttrsNode {
 public:
  bool reverse = false;
  bool resets_state = false;
  TREADLE_DECLARE_NODE(RecurrentAttrs, AttrsNode, "relay.attrs.RecurrentAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("reverse", &RecurrentAttrs::reverse).Doc("From the last step to the first");
    r.Field("resets_state", &RecurrentAttrs::resets_state)
        .Doc("Of GRU: gate r multiplies the state before its product, not the product");
  }
};

/// Of the form with packed weights (targets/cpu/kernels/recurrent.cc).
class PackedRecurrentAttrs : public AttrsNode {
 public:
  bool reverse = false;
  bool resets_state = false;
  int64_t rows = 1;
  bool share_panels = false;
  TREADLE_DECLARE_NODE(PackedRecurrentAttrs, AttrsNode, "relay.attrs.PackedRecurrentAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("reverse", &PackedRecurrentAttrs::reverse).Doc("From the last step to the first");
    r.Field("resets_state", &PackedRecurrentAttrs::resets_state)
        .Doc("Of GRU: gate r multiplies the state before its product, not the product");
    r.Field("rows", &PackedRecurrentAttrs::rows).Doc("Samples of a batch whose sums are in registers together");
    r.Field("share_panels", &PackedRecurrentAttrs::share_panels).Doc("Whether threads share the units of a step");
  }
};

/// Of forms of qnn.contrib_lstm with packed weights (targets/cpu/kernels/byte_recurrent.cc).
class PackedByteRecurrentAttrs : public AttrsNode {
 public:
  bool reverse = false;
  bool share_panels = false;
  bool complements = false;
  TREADLE_DECLARE_NODE(PackedByteRecurrentAttrs, AttrsNode, "relay.attrs.PackedByteRecurrentAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("reverse", &PackedByteRecurrentAttrs::reverse).Doc("From the last step to the first");
    r.Field("share_panels", &PackedByteRecurrentAttrs::share_panels).Doc("Whether threads share the units of a step");
    r.Field("complements", &PackedByteRecurrentAttrs::complements)
        .Doc("Words from the number of a state's words on are its words again, odd bytes x being 255 - x");
  }
};

}  // namespace treadle::ops
