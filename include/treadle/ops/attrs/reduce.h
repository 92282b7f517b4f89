// SPDX-License-Identifier: Apache-2.0
// Attributes of reductions.
#pragma once

#include <optional>
#include <vector>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class ReduceAttrs : public AttrsNode {
 public:
  std::optional<std::vector<int64_t>> axis;
  bool keepdims = false;
  bool exclude = false;
  TREADLE_DECLARE_NODE(ReduceAttrs, AttrsNode, "relay.attrs.ReduceAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &ReduceAttrs::axis).Doc("Dimensions to reduce; absent: all");
    r.Field("keepdims", &ReduceAttrs::keepdims).Doc("Reduced dimensions stay, with size 1");
    r.Field("exclude", &ReduceAttrs::exclude).Doc("Reduce the dimensions that `axis` doesn't list");
  }
};

class VarianceAttrs : public ReduceAttrs {
 public:
  bool unbiased = false;
  TREADLE_DECLARE_NODE(VarianceAttrs, ReduceAttrs, "relay.attrs.VarianceAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("unbiased", &VarianceAttrs::unbiased).Doc("Divide by n - 1 rather than n");
  }
};

class ArgReduceAttrs : public ReduceAttrs {
 public:
  bool select_last_index = false;
  TREADLE_DECLARE_NODE(ArgReduceAttrs, ReduceAttrs, "relay.attrs.ArgReduceAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("select_last_index", &ArgReduceAttrs::select_last_index).Doc("Of equal values the last, not the first");
  }
};

}  // namespace treadle::ops
