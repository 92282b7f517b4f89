// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay::transform {

/// PlanLayout for machines with so many floats in a vector.
treadle::transform::Pass PlanLayoutFor(int lanes);

}  // namespace treadle::relay::transform
