// SPDX-License-Identifier: Apache-2.0
// What type rule, computation and schedules of convolutions need to know about the sizes of one.
#pragma once

#include <string>
#include <vector>

#include "ops/infer.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/te/problem.h"

namespace treadle::ops {

/// The last `rank` letters of "DHW".
std::string SpatialNames(size_t rank);
/// out_dtype, or the input's.
DataType ConvOutDType(DataType data, DataType out);

/// Sizes of a convolution in the order N C spatial (data, out) and O I spatial (weight), whatever the layouts are.
struct ConvSizes {
  Array<PrimExpr> data, weight, out;
  PrimExpr channels;
  std::vector<int64_t> kernel;   ///< window
  std::vector<int64_t> padding;  ///< begins, then ends
  DataType out_dtype;
  bool multiplier_form = false;  ///< depthwise with a weight of shape (channels, multiplier, window)
  bool resolved = false;         ///< false: the weight's shape is needed and not known; only data is set
};
/// Checks attributes and shapes and completes them; `weight` is null where not known yet. ShapeError names what
/// doesn't fit.
ConvSizes ResolveConv(const ConvAttrs* attrs, size_t rank, const Array<PrimExpr>& data, DataType data_dtype,
                      const Array<PrimExpr>* weight);
/// States of sizes that only a run knows that the window fits and that groups divide the channels (RequireWindow and
/// RequireMultiple of infer.h).
void RequireSizes(const InferContext& context, const ConvSizes& sizes, const ConvAttrs* attrs);

/// The kernel that schedules convolutions in NCHW as the operator computes them.
inline constexpr const char* kRowConv = "conv2d.rows";

/// What it has to compute.
class RowConvProblemNode : public te::ProblemNode {
 public:
  int64_t batch = 1, ic = 0, ih = 0, iw = 0;  ///< ih, iw: with padding
  int64_t oc = 0, oh = 0, ow = 0, kh = 1, kw = 1;
  int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, groups = 1;
  DataType dtype = DataType::Float(32), weight_dtype = DataType::Float(32), out_dtype = DataType::Float(32);
  TREADLE_DECLARE_NODE(RowConvProblemNode, ProblemNode, "schedule.RowConvProblem");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("batch", &RowConvProblemNode::batch);
    r.Field("ic", &RowConvProblemNode::ic);
    r.Field("ih", &RowConvProblemNode::ih);
    r.Field("iw", &RowConvProblemNode::iw);
    r.Field("oc", &RowConvProblemNode::oc);
    r.Field("oh", &RowConvProblemNode::oh);
    r.Field("ow", &RowConvProblemNode::ow);
    r.Field("kh", &RowConvProblemNode::kh);
    r.Field("kw", &RowConvProblemNode::kw);
    r.Field("stride_h", &RowConvProblemNode::stride_h);
    r.Field("stride_w", &RowConvProblemNode::stride_w);
    r.Field("dilation_h", &RowConvProblemNode::dilation_h);
    r.Field("dilation_w", &RowConvProblemNode::dilation_w);
    r.Field("groups", &RowConvProblemNode::groups);
    r.Field("dtype", &RowConvProblemNode::dtype);
    r.Field("weight_dtype", &RowConvProblemNode::weight_dtype);
    r.Field("out_dtype", &RowConvProblemNode::out_dtype);
  }
};

}  // namespace treadle::ops
