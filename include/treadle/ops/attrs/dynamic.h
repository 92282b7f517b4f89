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

class ResizeAxisAttrs : public AttrsNode {
 public:
  int64_t axis = 0;
  std::string method = "nearest";
  std::string transform = "half_pixel";
  std::string rounding = "round_prefer_floor";
  double cubic_alpha = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double extrapolation_value = 0;
  bool by_size = false;
  TREADLE_DECLARE_NODE(ResizeAxisAttrs, AttrsNode, "relay.attrs.ResizeAxisAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &ResizeAxisAttrs::axis).Doc("The dimension");
    r.Field("method", &ResizeAxisAttrs::method).Doc("nearest, linear, cubic");
    r.Field("transform", &ResizeAxisAttrs::transform).Doc("ONNX Resize's coordinate_transformation_mode");
    r.Field("rounding", &ResizeAxisAttrs::rounding).Doc("ONNX Resize's nearest_mode");
    r.Field("cubic_alpha", &ResizeAxisAttrs::cubic_alpha).Doc("Of the cubic kernel");
    r.Field("exclude_outside", &ResizeAxisAttrs::exclude_outside).Doc("What lies outside has no weight");
    r.Field("antialias", &ResizeAxisAttrs::antialias).Doc("Stretch the kernel where it shrinks");
    r.Field("extrapolation_value", &ResizeAxisAttrs::extrapolation_value).Doc("Outside of the input, when cropping");
    r.Field("by_size", &ResizeAxisAttrs::by_size)
        .Doc("The factor is the size over that of data: 1 where they are equal");
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
