// SPDX-License-Identifier: Apache-2.0
// Which convolutions the passes over windows with gaps take.
#pragma once

#include <algorithm>
#include <vector>

#include "passes/pass_util.h"

namespace treadle::relay {

/// Whether a convolution is of float32, in NCHW, of known sizes, with one group, strides 1, padding that adds, and at
/// least so many channels on both sides.
inline bool IsPlainConv(const ops::Conv2DAttrs* attrs, const TensorTypeNode* data, const TensorTypeNode* weight,
                        const TensorTypeNode* out, int64_t least_channels) {
  for (const auto* type : {data, weight, out}) {
    if (type == nullptr || type->dtype != DataType::Float(32) || type->shape.size() != 4) return false;
    for (const PrimExpr& dim : type->shape) {
      if (AsConstInt(dim) == nullptr || *AsConstInt(dim) == 0) return false;
    }
  }
  return attrs->IsIn("NCHW", "OIHW") && attrs->groups == 1 && attrs->padding.size() == 4 &&
         attrs->strides == std::vector<int64_t>(2, 1) &&
         *std::min_element(attrs->padding.begin(), attrs->padding.end()) >= 0 &&
         std::min(*AsConstInt(weight->shape[0]), *AsConstInt(weight->shape[1])) >= least_channels;
}

}  // namespace treadle::relay
