// SPDX-License-Identifier: Apache-2.0
// FuseSiblings: kernels of several results.
#pragma once

#include <cstdint>

#include "treadle/ir/transform.h"

namespace treadle::relay {

/// Option of the pass context: whether builds fuse siblings (default: no).
inline constexpr const char* kFuseSiblings = "relay.FuseSiblings";
/// Attribute of fused functions: their results, of one shape, are computed in one loop nest.
inline constexpr const char* kSiblings = "siblings";

namespace transform {

/// After FuseOps: fused functions of element-wise operators that read one tensor of their results' shape become one
/// function of several results where the tensor has at least `min_bytes`, so that it is read once. A tensor that fits a
/// cache is quick to read again, and apart each function may write over an operand: then they stay as they are.
treadle::transform::Pass FuseSiblings(int64_t min_bytes);

}  // namespace transform
}  // namespace treadle::relay
