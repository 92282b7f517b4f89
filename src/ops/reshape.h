// SPDX-License-Identifier: Apache-2.0
// Shape computations of reshape and transpose that other operators share.
#pragma once

#include <vector>

#include "treadle/ops/attrs/transform.h"

namespace treadle::ops {

/// Dimension of the input for each dimension of the result.
std::vector<int> TransposeOrder(const TransposeAttrs* attrs, size_t rank);

}  // namespace treadle::ops
