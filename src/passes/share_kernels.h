// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay::transform {

using treadle::transform::Pass;

/// Fused functions that differ in nothing but numbers of arithmetic (scales, zero points, bounds of roundings) become
/// equal: they get those numbers as arguments of rank 0. Runs after FuseOps.
Pass ShareKernels();

}  // namespace treadle::relay::transform
