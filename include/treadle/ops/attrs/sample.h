// SPDX-License-Identifier: Apache-2.0
// Attributes of random numbers and of operators that say where windows read.
#pragma once

#include <cstdint>
#include <vector>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class RandomAttrs : public AttrsNode {
 public:
  int64_t seed = 0;
  TREADLE_DECLARE_NODE(RandomAttrs, AttrsNode, "relay.attrs.RandomAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("seed", &RandomAttrs::seed).Doc("Numbers of different seeds have nothing in common");
  }
};

class WindowSampleAttrs : public AttrsNode {
 public:
  std::vector<int64_t> kernel, strides, dilations, padding;
  int64_t groups = 1;
  bool column_major = false;
  TREADLE_DECLARE_NODE(WindowSampleAttrs, AttrsNode, "relay.attrs.WindowSampleAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("kernel", &WindowSampleAttrs::kernel).Doc("Elements of a window in each spatial dimension");
    r.Field("strides", &WindowSampleAttrs::strides).Doc("Steps from window to window");
    r.Field("dilations", &WindowSampleAttrs::dilations).Doc("Steps within a window");
    r.Field("padding", &WindowSampleAttrs::padding).Doc("All begins, then all ends");
    r.Field("groups", &WindowSampleAttrs::groups).Doc("Groups of channels with offsets of their own");
    r.Field("column_major", &WindowSampleAttrs::column_major)
        .Doc("The first spatial dimension runs fastest in indices");
  }
};

}  // namespace treadle::ops
