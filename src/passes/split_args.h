// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay::transform {

using treadle::transform::Pass;

/// How many tensors one kernel joins: what a kernel takes to compile grows faster than the number of its arguments.
inline constexpr int kMaxJoined = 32;

/// Concatenations of more than `max_function_args` tensors become some of at most that many, which don't fuse with each
/// other. Throws Error for less than 2.
Pass SplitArgs(int max_function_args);

}  // namespace treadle::relay::transform
