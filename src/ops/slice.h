// SPDX-License-Identifier: Apache-2.0
// The arithmetic of strided slices.
#pragma once

#include <vector>

#include "treadle/ops/attrs/transform.h"

namespace treadle::ops {

/// A slice of each dimension: element i of the result is element begin + i * stride.
struct SliceBounds {
  Array<PrimExpr> begin;
  std::vector<int64_t> stride;
  Array<PrimExpr> size;
};
/// Normalises begins, ends and strides as NumPy does. ShapeError where a stride is 0 or an axis is out of range.
SliceBounds ResolveSlice(const StridedSliceAttrs* attrs, const Array<PrimExpr>& shape);

}  // namespace treadle::ops
