// SPDX-License-Identifier: Apache-2.0
// Attributes of operators for object detection.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class ROIAlignAttrs : public AttrsNode {
 public:
  std::vector<int64_t> pooled_size;
  double spatial_scale = 1;
  int sample_ratio = -1;
  std::string layout = "NCHW";
  std::string mode = "avg";
  bool aligned = false;
  TREADLE_DECLARE_NODE(ROIAlignAttrs, AttrsNode, "relay.attrs.ROIAlignAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("pooled_size", &ROIAlignAttrs::pooled_size).Doc("(height, width) of the result").Required();
    r.Field("spatial_scale", &ROIAlignAttrs::spatial_scale).Doc("Size of data / size of the image of the boxes");
    r.Field("sample_ratio", &ROIAlignAttrs::sample_ratio).Doc("Samples per bin and dimension; below 1: by box size");
    r.Field("layout", &ROIAlignAttrs::layout).Doc("NCHW");
    r.Field("mode", &ROIAlignAttrs::mode).Doc("avg or max of the samples");
    r.Field("aligned", &ROIAlignAttrs::aligned).Doc("Pixel centres are at half-integers (half_pixel of ONNX)");
  }
};

class ROIPoolAttrs : public AttrsNode {
 public:
  std::vector<int64_t> pooled_size;
  double spatial_scale = 1;
  std::string layout = "NCHW";
  TREADLE_DECLARE_NODE(ROIPoolAttrs, AttrsNode, "relay.attrs.ROIPoolAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("pooled_size", &ROIPoolAttrs::pooled_size).Doc("(height, width) of the result").Required();
    r.Field("spatial_scale", &ROIPoolAttrs::spatial_scale).Doc("Size of data / size of the image of the boxes");
    r.Field("layout", &ROIPoolAttrs::layout).Doc("NCHW");
  }
};

class YoloReorgAttrs : public AttrsNode {
 public:
  int stride = 1;
  TREADLE_DECLARE_NODE(YoloReorgAttrs, AttrsNode, "relay.attrs.YoloReorgAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("stride", &YoloReorgAttrs::stride).Doc("Side of a block of pixels").AtLeast(1);
  }
};

class KeepBoxesAttrs : public AttrsNode {
 public:
  double iou_threshold = 0.5;
  int64_t max_output_size = -1;
  bool force_suppress = false;
  TREADLE_DECLARE_NODE(KeepBoxesAttrs, AttrsNode, "relay.attrs.KeepBoxesAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("iou_threshold", &KeepBoxesAttrs::iou_threshold).Doc("Overlap from which on the later box is dropped");
    r.Field("max_output_size", &KeepBoxesAttrs::max_output_size).Doc("Boxes that are kept at most; below 0: all");
    r.Field("force_suppress", &KeepBoxesAttrs::force_suppress).Doc("Boxes of other classes drop each other, too");
  }
};

}  // namespace treadle::ops
