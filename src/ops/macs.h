// SPDX-License-Identifier: Apache-2.0
// Counting an operator's multiply-adds (relay::FMacCount).
#pragma once

#include "treadle/relay/mac_count.h"

namespace treadle::ops {

/// The product of static dimensions; a double, which no sizes overflow.
inline double Elements(const Array<PrimExpr>& shape) {
  double count = 1;
  for (const PrimExpr& dim : shape) count *= static_cast<double>(*AsConstInt(dim));
  return count;
}
inline const Array<PrimExpr>& ShapeOf(const Type& type) { return type.as<TensorTypeNode>()->shape; }
/// Dimension `i` of a static tensor type, from the end where negative.
inline double DimOf(const Type& type, int i) {
  const Array<PrimExpr>& shape = ShapeOf(type);
  return static_cast<double>(
      *AsConstInt(shape[i < 0 ? shape.size() - static_cast<size_t>(-i) : static_cast<size_t>(i)]));
}

}  // namespace treadle::ops
