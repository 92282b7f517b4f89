// SPDX-License-Identifier: Apache-2.0
// Attributes of the neural network operators other than convolution and pooling.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class DenseAttrs : public AttrsNode {
 public:
  std::optional<int64_t> units;
  DataType out_dtype;
  TREADLE_DECLARE_NODE(DenseAttrs, AttrsNode, "relay.attrs.DenseAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("units", &DenseAttrs::units).Doc("Outputs; taken from the weight when absent").Required();
    r.Field("out_dtype", &DenseAttrs::out_dtype).Doc("Type of the output; void: that of the input");
  }
};

class MatmulAttrs : public AttrsNode {
 public:
  std::optional<int64_t> units;
  DataType out_dtype;
  bool transpose_a = false;
  bool transpose_b = false;
  TREADLE_DECLARE_NODE(MatmulAttrs, AttrsNode, "relay.attrs.MatmulAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("units", &MatmulAttrs::units).Doc("Columns of the result; taken from tensor_b when absent").Required();
    r.Field("out_dtype", &MatmulAttrs::out_dtype).Doc("Type of the output; void: that of the input");
    r.Field("transpose_a", &MatmulAttrs::transpose_a).Doc("tensor_a is (k, m) rather than (m, k)");
    r.Field("transpose_b", &MatmulAttrs::transpose_b).Doc("tensor_b is (n, k) rather than (k, n)");
  }
};

class BatchMatmulAttrs : public AttrsNode {
 public:
  DataType out_dtype;
  bool transpose_a = false;
  bool transpose_b = true;
  TREADLE_DECLARE_NODE(BatchMatmulAttrs, AttrsNode, "relay.attrs.BatchMatmulAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("out_dtype", &BatchMatmulAttrs::out_dtype).Doc("Type of the output; void: that of the input");
    r.Field("transpose_a", &BatchMatmulAttrs::transpose_a).Doc("tensor_a is (b, k, m) rather than (b, m, k)");
    r.Field("transpose_b", &BatchMatmulAttrs::transpose_b).Doc("tensor_b is (b, n, k) rather than (b, k, n)");
  }
};

class BiasAddAttrs : public AttrsNode {
 public:
  int axis = 1;
  TREADLE_DECLARE_NODE(BiasAddAttrs, AttrsNode, "relay.attrs.BiasAddAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &BiasAddAttrs::axis).Doc("Dimension of data that the bias runs along");
  }
};

class SoftmaxAttrs : public AttrsNode {
 public:
  int axis = -1;
  TREADLE_DECLARE_NODE(SoftmaxAttrs, AttrsNode, "relay.attrs.SoftmaxAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &SoftmaxAttrs::axis).Doc("Dimension that is normalised");
  }
};

class LeakyReluAttrs : public AttrsNode {
 public:
  double alpha = 0.25;
  TREADLE_DECLARE_NODE(LeakyReluAttrs, AttrsNode, "relay.attrs.LeakyReluAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("alpha", &LeakyReluAttrs::alpha).Doc("Slope below zero");
  }
};

class PReluAttrs : public AttrsNode {
 public:
  int axis = 1;
  TREADLE_DECLARE_NODE(PReluAttrs, AttrsNode, "relay.attrs.PReluAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &PReluAttrs::axis).Doc("Dimension that alpha runs along");
  }
};

class DropoutAttrs : public AttrsNode {
 public:
  double rate = 0.5;
  TREADLE_DECLARE_NODE(DropoutAttrs, AttrsNode, "relay.attrs.DropoutAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("rate", &DropoutAttrs::rate).Doc("Fraction that training drops").Range(0, 1);
  }
};

class BatchNormAttrs : public AttrsNode {
 public:
  int axis = 1;
  double epsilon = 1e-5;
  bool center = true;
  bool scale = true;
  TREADLE_DECLARE_NODE(BatchNormAttrs, AttrsNode, "relay.attrs.BatchNormAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &BatchNormAttrs::axis).Doc("Dimension of the channels");
    r.Field("epsilon", &BatchNormAttrs::epsilon).Doc("Added to the variance");
    r.Field("center", &BatchNormAttrs::center).Doc("Whether beta is added");
    r.Field("scale", &BatchNormAttrs::scale).Doc("Whether gamma is multiplied by");
  }
};

class LayerNormAttrs : public AttrsNode {
 public:
  int axis = -1;
  double epsilon = 1e-5;
  bool center = true;
  bool scale = true;
  TREADLE_DECLARE_NODE(LayerNormAttrs, AttrsNode, "relay.attrs.LayerNormAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &LayerNormAttrs::axis).Doc("Dimension that is normalised");
    r.Field("epsilon", &LayerNormAttrs::epsilon).Doc("Added to the variance");
    r.Field("center", &LayerNormAttrs::center).Doc("Whether beta is added");
    r.Field("scale", &LayerNormAttrs::scale).Doc("Whether gamma is multiplied by");
  }
};

class InstanceNormAttrs : public AttrsNode {
 public:
  int axis = 1;
  double epsilon = 1e-5;
  bool center = true;
  bool scale = true;
  TREADLE_DECLARE_NODE(InstanceNormAttrs, AttrsNode, "relay.attrs.InstanceNormAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &InstanceNormAttrs::axis).Doc("Dimension of the channels");
    r.Field("epsilon", &InstanceNormAttrs::epsilon).Doc("Added to the variance");
    r.Field("center", &InstanceNormAttrs::center).Doc("Whether beta is added");
    r.Field("scale", &InstanceNormAttrs::scale).Doc("Whether gamma is multiplied by");
  }
};

class GroupNormAttrs : public AttrsNode {
 public:
  int num_groups = 0;
  int axis = 1;
  double epsilon = 1e-5;
  bool center = true;
  bool scale = true;
  TREADLE_DECLARE_NODE(GroupNormAttrs, AttrsNode, "relay.attrs.GroupNormAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("num_groups", &GroupNormAttrs::num_groups).Doc("Channels are split into so many groups").AtLeast(0);
    r.Field("axis", &GroupNormAttrs::axis).Doc("Dimension of the channels");
    r.Field("epsilon", &GroupNormAttrs::epsilon).Doc("Added to the variance");
    r.Field("center", &GroupNormAttrs::center).Doc("Whether beta is added");
    r.Field("scale", &GroupNormAttrs::scale).Doc("Whether gamma is multiplied by");
  }
};

class L2NormalizeAttrs : public AttrsNode {
 public:
  double eps = 0;
  std::vector<int64_t> axis;
  TREADLE_DECLARE_NODE(L2NormalizeAttrs, AttrsNode, "relay.attrs.L2NormalizeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("eps", &L2NormalizeAttrs::eps).Doc("Lower bound of the sum of squares");
    r.Field("axis", &L2NormalizeAttrs::axis).Doc("Dimensions that are normalised; empty: all");
  }
};

class LRNAttrs : public AttrsNode {
 public:
  int size = 5;
  int axis = 1;
  double bias = 2;
  double alpha = 0.0001;
  double beta = 0.75;
  TREADLE_DECLARE_NODE(LRNAttrs, AttrsNode, "relay.attrs.LRNAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("size", &LRNAttrs::size).Doc("Channels in the window").AtLeast(1);
    r.Field("axis", &LRNAttrs::axis).Doc("Dimension of the channels");
    r.Field("bias", &LRNAttrs::bias).Doc("Constant added to the scaled sum of squares");
    r.Field("alpha", &LRNAttrs::alpha).Doc("Scale of the sum of squares, divided by size");
    r.Field("beta", &LRNAttrs::beta).Doc("Exponent");
  }
};

/// `pad_width` holds one pair [before, after] per dimension.
class PadAttrs : public AttrsNode {
 public:
  Array<Array<PrimExpr>> pad_width;
  std::string pad_mode = "constant";
  TREADLE_DECLARE_NODE(PadAttrs, AttrsNode, "relay.attrs.PadAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("pad_width", &PadAttrs::pad_width).Doc("[before, after] of each dimension; negative crops").Required();
    r.Field("pad_mode", &PadAttrs::pad_mode)
        .Doc(
            "constant: the pad_value operand; edge: the nearest element; reflect: mirrored without repeating the "
            "edge; wrap: from the other side");
  }
};

class MirrorPadAttrs : public AttrsNode {
 public:
  std::string mode = "SYMMETRIC";
  Array<Array<PrimExpr>> pad_width;
  TREADLE_DECLARE_NODE(MirrorPadAttrs, AttrsNode, "relay.attrs.MirrorPadAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("mode", &MirrorPadAttrs::mode).Doc("SYMMETRIC repeats the edge, REFLECT doesn't");
    r.Field("pad_width", &MirrorPadAttrs::pad_width).Doc("[before, after] of each dimension").Required();
  }
};

class UpSamplingAttrs : public AttrsNode {
 public:
  double scale_h = 1;
  double scale_w = 1;
  std::string layout = "NCHW";
  std::string method = "nearest_neighbor";
  bool align_corners = false;
  TREADLE_DECLARE_NODE(UpSamplingAttrs, AttrsNode, "relay.attrs.UpSamplingAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("scale_h", &UpSamplingAttrs::scale_h).Doc("Factor of the height");
    r.Field("scale_w", &UpSamplingAttrs::scale_w).Doc("Factor of the width");
    r.Field("layout", &UpSamplingAttrs::layout).Doc("Order of the dimensions");
    r.Field("method", &UpSamplingAttrs::method).Doc("nearest_neighbor, bilinear or bicubic");
    r.Field("align_corners", &UpSamplingAttrs::align_corners).Doc("Corners of input and output coincide");
  }
};

class UpSampling3DAttrs : public AttrsNode {
 public:
  double scale_d = 1;
  double scale_h = 1;
  double scale_w = 1;
  std::string layout = "NCDHW";
  std::string method = "nearest_neighbor";
  std::string coordinate_transformation_mode = "half_pixel";
  TREADLE_DECLARE_NODE(UpSampling3DAttrs, AttrsNode, "relay.attrs.UpSampling3DAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("scale_d", &UpSampling3DAttrs::scale_d).Doc("Factor of the depth");
    r.Field("scale_h", &UpSampling3DAttrs::scale_h).Doc("Factor of the height");
    r.Field("scale_w", &UpSampling3DAttrs::scale_w).Doc("Factor of the width");
    r.Field("layout", &UpSampling3DAttrs::layout).Doc("Order of the dimensions");
    r.Field("method", &UpSampling3DAttrs::method).Doc("nearest_neighbor or trilinear");
    r.Field("coordinate_transformation_mode", &UpSampling3DAttrs::coordinate_transformation_mode)
        .Doc("As for image.resize3d");
  }
};

/// depth_to_space and space_to_depth.
class SubPixelAttrs : public AttrsNode {
 public:
  int block_size = 1;
  std::string layout = "NCHW";
  std::string mode = "DCR";
  TREADLE_DECLARE_NODE(SubPixelAttrs, AttrsNode, "relay.attrs.SubPixelAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("block_size", &SubPixelAttrs::block_size).Doc("Side of a block").AtLeast(1);
    r.Field("layout", &SubPixelAttrs::layout).Doc("NCHW or NHWC");
    r.Field("mode", &SubPixelAttrs::mode).Doc("DCR: depth is block, then channel; CRD: channel, then block");
  }
};

class SpaceToBatchNDAttrs : public AttrsNode {
 public:
  std::vector<int64_t> block_shape;
  Array<Array<PrimExpr>> paddings;
  double pad_value = 0;
  TREADLE_DECLARE_NODE(SpaceToBatchNDAttrs, AttrsNode, "relay.attrs.SpaceToBatchNDAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("block_shape", &SpaceToBatchNDAttrs::block_shape).Doc("Block of each spatial dimension").Required();
    r.Field("paddings", &SpaceToBatchNDAttrs::paddings).Doc("[before, after] of each spatial dimension").Required();
    r.Field("pad_value", &SpaceToBatchNDAttrs::pad_value).Doc("Value of the padding");
  }
};

class BatchToSpaceNDAttrs : public AttrsNode {
 public:
  std::vector<int64_t> block_shape;
  Array<Array<PrimExpr>> crops;
  TREADLE_DECLARE_NODE(BatchToSpaceNDAttrs, AttrsNode, "relay.attrs.BatchToSpaceNDAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("block_shape", &BatchToSpaceNDAttrs::block_shape).Doc("Block of each spatial dimension").Required();
    r.Field("crops", &BatchToSpaceNDAttrs::crops).Doc("[begin, end] cut from each spatial dimension").Required();
  }
};

class DilateAttrs : public AttrsNode {
 public:
  std::vector<int64_t> strides;
  double dilation_value = 0;
  TREADLE_DECLARE_NODE(DilateAttrs, AttrsNode, "relay.attrs.DilateAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("strides", &DilateAttrs::strides).Doc("Distance that neighbours get in each dimension").Required();
    r.Field("dilation_value", &DilateAttrs::dilation_value).Doc("Value put between");
  }
};

class NLLLossAttrs : public AttrsNode {
 public:
  std::string reduction = "mean";
  int ignore_index = -100;
  TREADLE_DECLARE_NODE(NLLLossAttrs, AttrsNode, "relay.attrs.NLLLossAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("reduction", &NLLLossAttrs::reduction).Doc("mean, sum or none");
    r.Field("ignore_index", &NLLLossAttrs::ignore_index).Doc("Class whose elements don't count");
  }
};

class DensePackAttrs : public AttrsNode {
 public:
  std::optional<int64_t> units;
  DataType out_dtype;
  std::string weight_layout = "NC";
  TREADLE_DECLARE_NODE(DensePackAttrs, AttrsNode, "relay.attrs.DensePackAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("units", &DensePackAttrs::units).Doc("Outputs; taken from the weight when absent");
    r.Field("out_dtype", &DensePackAttrs::out_dtype).Doc("Type of the output; void: that of the input");
    r.Field("weight_layout", &DensePackAttrs::weight_layout).Doc("Such as NC8n: (units / 8, k, 8)");
  }
};

}  // namespace treadle::ops
