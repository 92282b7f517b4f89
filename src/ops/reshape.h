// SPDX-License-Identifier: Apache-2.0
// Shape computations of reshape and transpose that other operators share.
#pragma once

#include <vector>

#include "treadle/ops/attrs/transform.h"

namespace treadle::ops {

/// Resolves the codes of ReshapeAttrs::newshape. ShapeError where sizes don't match. Where only a run knows whether
/// what -1 stands for is a whole number, `remainder` is set to what has to be 0 in it.
Array<PrimExpr> ReshapeShape(const Array<PrimExpr>& shape, const Array<PrimExpr>& newshape, bool allowzero,
                             PrimExpr* remainder = nullptr);
/// Dimension of the input for each dimension of the result.
std::vector<int> TransposeOrder(const TransposeAttrs* attrs, size_t rank);

}  // namespace treadle::ops
