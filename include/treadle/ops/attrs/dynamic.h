// SPDX-License-Identifier: Apache-2.0
// Attributes of operators for shapes that are only known when a model runs.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class ForgetShapeAttrs : public AttrsNode {
 public:
  std::vector<int64_t> axes;
  TREADLE_DECLARE_NODE(ForgetShapeAttrs, AttrsNode, "relay.attrs.ForgetShapeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axes", &ForgetShapeAttrs::axes).Doc("Dimensions");
  }
};

class NmsPaddedAttrs : public AttrsNode {
 public:
  bool center_point_box = false;
  TREADLE_DECLARE_NODE(NmsPaddedAttrs, AttrsNode, "relay.attrs.NmsPaddedAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("center_point_box", &NmsPaddedAttrs::center_point_box).Doc("Boxes are center, width and height");
  }
};

class RaiseAttrs : public AttrsNode {
 public:
  std::string message;
  Array<PrimExpr> shape;
  DataType dtype;
  TREADLE_DECLARE_NODE(RaiseAttrs, AttrsNode, "relay.attrs.RaiseAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("message", &RaiseAttrs::message).Doc("Text of the error");
    r.Field("shape", &RaiseAttrs::shape).Doc("Shape of the result that there isn't; -1: unknown");
    r.Field("dtype", &RaiseAttrs::dtype).Doc("Its type");
  }
};

}  // namespace treadle::ops
