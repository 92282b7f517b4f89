// SPDX-License-Identifier: Apache-2.0
// SplitReshapes: kernels in the dimensions that they compute in.
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay::transform {

/// After FuseOps: a reshape at the end of a fused function becomes a function of its own, a view that copies nothing.
/// Loops over the dimensions that it joins or splits would take them apart for each element.
treadle::transform::Pass SplitReshapes();

}  // namespace treadle::relay::transform
