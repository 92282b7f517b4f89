// SPDX-License-Identifier: Apache-2.0
// Winograd's minimal filtering F(m x m, 3 x 3) (Lavin and Gray 2015): a tile of m x m outputs is computed from
// (m + 2) x (m + 2) products instead of 9 * m * m; with stride 2, a tile of 2 x 2 from 25 instead of 36.
#pragma once

#include <cstdint>
#include <vector>

#include "treadle/runtime/ndarray.h"

namespace treadle::ops {

/// What the choice of an algorithm looks at: a 3 x 3 convolution.
struct WinogradShape {
  int64_t batch = 1, in_channels = 0, out_channels = 0;
  int64_t out_height = 0, out_width = 0;
  int64_t stride = 1;
};

/// Sides of the square of inputs from which a tile of outputs is computed, of the forms that should beat direct
/// convolution, the fastest first: 6 for F(4x4), 4 for F(2x2); 5 for tiles of 2 x 2 with stride 2, whose even inputs
/// are filtered by F(2, 2) and the odd ones by one weight. Empty where none does.
std::vector<int64_t> WinogradSides(const WinogradShape& shape);

/// Whether results from squares of side `a` are about as accurate as direct ones: on pseudo-random activations, the
/// largest error against float64 stays within 4 times that of the plain sum, or within 1e-4 of the range of the
/// outputs.
bool WinogradIsAccurate(const runtime::NDArray& weight, int64_t a);

/// The weight (OC, IC, 3, 3) as (a, a, OC/ob, IC/ib, ib, ob), transformed in float64.
runtime::NDArray WinogradWeight(const runtime::NDArray& weight, int64_t a, int64_t ib, int64_t ob);

}  // namespace treadle::ops
