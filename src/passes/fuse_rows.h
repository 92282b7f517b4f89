// SPDX-License-Identifier: Apache-2.0
// FuseRows: norms as one kernel.
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay {

/// Option of the pass context: whether builds for CPUs fuse rows (default: yes).
inline constexpr const char* kFuseRows = "relay.FuseRows";

namespace transform {

/// After FuseOps: a fused function that computes on rows (the trailing dimensions of a tensor) and those that reduce
/// the same rows for it become one function, for kernels that take one row after another while it is in a near cache:
/// layer, instance, group, RMS and Lp norms, and softmax that is written out. What follows a norm and moves elements
/// (reshape, transpose) becomes a function of its own. Rows have static sizes; their number may be dynamic.
treadle::transform::Pass FuseRows();

}  // namespace transform
}  // namespace treadle::relay
