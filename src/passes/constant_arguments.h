// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay::transform {

using treadle::transform::Pass;

/// Parameters of global functions that are one constant in all calls become that constant: weights that a loop (a
/// function that calls itself) hands on from trip to trip are packed then, as those outside of loops are. Calls of a
/// function by itself count only where they pass something else than the parameter.
Pass PropagateConstantArguments();

}  // namespace treadle::relay::transform
