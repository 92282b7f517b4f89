// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "treadle/ops/attrs/nn.h"

namespace treadle::ops {

/// The (before, after) of each dimension; ShapeError unless they are constants and as many as `rank`.
std::vector<std::pair<int64_t, int64_t>> PadPairs(const Array<Array<PrimExpr>>& pad_width, size_t rank);

}  // namespace treadle::ops
