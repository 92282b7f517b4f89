// SPDX-License-Identifier: Apache-2.0
// Resampling along dimensions of a tensor.
#pragma once

#include <vector>

#include "ops/te_util.h"
#include "treadle/ops/attrs/image.h"

namespace treadle::ops {

/// Resamples the dimensions `axes` of `data` to the shape `out`; ResizeAttrs says how.
Tensor ResizeTensor(const ResizeAttrs& attrs, const Tensor& data, const std::vector<size_t>& axes,
                    const TensorTypeNode* out);

}  // namespace treadle::ops
