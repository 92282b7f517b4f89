// SPDX-License-Identifier: Apache-2.0
// Attributes of random numbers of keys.
#pragma once

#include <cstdint>
#include <vector>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class ThreefryGenerateAttrs : public AttrsNode {
 public:
  std::vector<int64_t> out_shape;
  TREADLE_DECLARE_NODE(ThreefryGenerateAttrs, AttrsNode, "relay.attrs.ThreefryGenerateAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("out_shape", &ThreefryGenerateAttrs::out_shape).Doc("Shape of the numbers");
  }
};

class RandomUniformAttrs : public AttrsNode {
 public:
  std::vector<int64_t> out_shape;
  DataType out_dtype = DataType::Float(32);
  TREADLE_DECLARE_NODE(RandomUniformAttrs, AttrsNode, "relay.attrs.UniformAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("out_shape", &RandomUniformAttrs::out_shape).Doc("Shape of the numbers");
    r.Field("out_dtype", &RandomUniformAttrs::out_dtype).Doc("float32 or float64");
  }
};

}  // namespace treadle::ops
