// SPDX-License-Identifier: Apache-2.0
// Resampling along dimensions of a tensor.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/te_util.h"
#include "treadle/ops/attrs/image.h"

namespace treadle::ops {

/// Resamples the dimensions `axes` of `data` to the shape `out`; ResizeAttrs says how.
Tensor ResizeTensor(const ResizeAttrs& attrs, const Tensor& data, const std::vector<size_t>& axes,
                    const TensorTypeNode* out);

/// The elements that each element of a resampled dimension is the weighted sum of, as tables of shape (elements of a
/// window, elements of the result).
struct SampleWindows {
  Tensor places;   ///< within the dimension; int32 or int64
  Tensor weights;  ///< float32; of a window they sum to 1
};

/// `place` and `weight` of element `k` of the window of result `i`; places are clamped to [0, in), weights aren't
/// normalised yet. `suffix`: of the tables' names.
SampleWindows MakeSampleWindows(const PrimExpr& in, const PrimExpr& out, const PrimExpr& taps,
                                const std::function<PrimExpr(const PrimExpr& i, const PrimExpr& k)>& place,
                                const std::function<PrimExpr(const PrimExpr& i, const PrimExpr& k)>& weight,
                                const std::string& suffix);

/// `data`, of float32 or float64 or converted to float32, with `axis` resampled. An element that counts nothing may be
/// infinite.
Tensor SumSampleWindows(const SampleWindows& windows, const Tensor& data, size_t axis, const std::string& suffix);

}  // namespace treadle::ops
