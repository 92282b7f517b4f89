// SPDX-License-Identifier: Apache-2.0
// What type rule, computation and schedules of convolutions need to know about the sizes of one.
#pragma once

#include <string>
#include <vector>

#include "ops/infer.h"
#include "treadle/ops/attrs/conv.h"

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
/// States that the window fits into sizes that only a run knows (RequireWindow of infer.h).
void RequireWindows(const InferContext& context, const ConvSizes& sizes, const ConvAttrs* attrs);

}  // namespace treadle::ops
