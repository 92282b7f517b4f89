// SPDX-License-Identifier: Apache-2.0
// Attributes of operators on images.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

/// image.resize1d, resize2d, resize3d; the options are those of ONNX Resize.
class ResizeAttrs : public AttrsNode {
 public:
  Array<PrimExpr> size;
  std::vector<double> roi;
  std::vector<double> scales;
  std::string layout;
  std::string method = "linear";
  std::string coordinate_transformation_mode = "half_pixel";
  std::string rounding_method;
  double cubic_alpha = -0.5;
  bool cubic_exclude = false;
  double extrapolation_value = 0;
  bool antialias = false;
  DataType out_dtype;

  ResizeAttrs() = default;
  explicit ResizeAttrs(std::string layout) : layout(std::move(layout)) {}
  TREADLE_DECLARE_NODE(ResizeAttrs, AttrsNode, "relay.attrs.ResizeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("size", &ResizeAttrs::size)
        .Doc("Spatial size of the output; of dyn.image.resize2d what is known of it")
        .Required();
    r.Field("roi", &ResizeAttrs::roi)
        .Doc("Region of the input for tf_crop_and_resize: begins, then ends, as fractions of the size");
    r.Field("scales", &ResizeAttrs::scales).Doc("Factor of each spatial dimension; empty: output size / input size");
    r.Field("layout", &ResizeAttrs::layout).Doc("Order of the dimensions");
    r.Field("method", &ResizeAttrs::method).Doc("nearest_neighbor, linear or cubic");
    r.Field("coordinate_transformation_mode", &ResizeAttrs::coordinate_transformation_mode)
        .Doc(
            "half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, tf_half_pixel_for_nn "
            "or tf_crop_and_resize");
    r.Field("rounding_method", &ResizeAttrs::rounding_method)
        .Doc(
            "Of nearest_neighbor: round_prefer_floor, round_prefer_ceil (also round), floor or ceil; empty: floor "
            "for asymmetric, else round_prefer_floor");
    r.Field("cubic_alpha", &ResizeAttrs::cubic_alpha).Doc("Coefficient of the cubic kernel");
    r.Field("cubic_exclude", &ResizeAttrs::cubic_exclude).Doc("Weights outside the image are 0, the others rescaled");
    r.Field("extrapolation_value", &ResizeAttrs::extrapolation_value).Doc("Outside the image, for tf_crop_and_resize");
    r.Field("antialias", &ResizeAttrs::antialias).Doc("Widen the kernel when shrinking");
    r.Field("out_dtype", &ResizeAttrs::out_dtype).Doc("Type of the output; void: that of the input");
  }
};
class Resize1DAttrs : public ResizeAttrs {
 public:
  Resize1DAttrs() : ResizeAttrs("NCW") {}
  TREADLE_DECLARE_NODE(Resize1DAttrs, ResizeAttrs, "relay.attrs.Resize1DAttrs");
};
class Resize2DAttrs : public ResizeAttrs {
 public:
  Resize2DAttrs() : ResizeAttrs("NCHW") {}
  TREADLE_DECLARE_NODE(Resize2DAttrs, ResizeAttrs, "relay.attrs.Resize2DAttrs");
};
class Resize3DAttrs : public ResizeAttrs {
 public:
  Resize3DAttrs() : ResizeAttrs("NCDHW") {}
  TREADLE_DECLARE_NODE(Resize3DAttrs, ResizeAttrs, "relay.attrs.Resize3DAttrs");
};

class GridSampleAttrs : public AttrsNode {
 public:
  std::string method = "bilinear";
  std::string layout = "NCHW";
  std::string padding_mode = "zeros";
  bool align_corners = true;
  TREADLE_DECLARE_NODE(GridSampleAttrs, AttrsNode, "relay.attrs.GridSampleAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("method", &GridSampleAttrs::method).Doc("bilinear, nearest or bicubic");
    r.Field("layout", &GridSampleAttrs::layout).Doc("NCHW or NCDHW");
    r.Field("padding_mode", &GridSampleAttrs::padding_mode).Doc("zeros, border or reflection");
    r.Field("align_corners", &GridSampleAttrs::align_corners).Doc("-1 and 1 are the centres of the corner pixels");
  }
};

class AffineGridAttrs : public AttrsNode {
 public:
  std::vector<int64_t> target_shape;
  TREADLE_DECLARE_NODE(AffineGridAttrs, AttrsNode, "relay.attrs.AffineGridAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("target_shape", &AffineGridAttrs::target_shape).Doc("(height, width) of the grid").Required();
  }
};

}  // namespace treadle::ops
