// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay::transform {

using treadle::transform::Pass;

/// Element-wise operators behind a reshape of a product come before it: then they and the product are one kernel.
Pass ReshapeLast();

}  // namespace treadle::relay::transform
