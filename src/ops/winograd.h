// SPDX-License-Identifier: Apache-2.0
// Winograd's minimal filtering F(m x m, 3 x 3) (Lavin and Gray 2015): a tile of m x m outputs is computed from
// (m + 2) x (m + 2) products instead of 9 * m * m.
#pragma once

#include <cstdint>
#include <vector>

#include "treadle/runtime/ndarray.h"

namespace treadle::ops {

/// What the choice of an algorithm looks at: a 3 x 3 convolution of stride 1.
struct WinogradShape {
  int64_t batch = 1, in_channels = 0, out_channels = 0;
  int64_t out_height = 0, out_width = 0;
};

/// Tile sizes (4, 2) that should beat direct convolution, the fastest first. Empty where none does.
std::vector<int64_t> WinogradTiles(const WinogradShape& shape);

/// Whether results with tile `m` are about as accurate as direct ones: on pseudo-random activations, the largest error
/// against float64 stays within 4 times that of the plain sum, or within 1e-4 of the range of the outputs.
bool WinogradIsAccurate(const runtime::NDArray& weight, int64_t m);

/// The weight (OC, IC, 3, 3) as (m + 2, m + 2, OC/ob, IC/ib, ib, ob), transformed in float64.
runtime::NDArray WinogradWeight(const runtime::NDArray& weight, int64_t m, int64_t ib, int64_t ob);

}  // namespace treadle::ops
