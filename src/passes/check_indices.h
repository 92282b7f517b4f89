// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay::transform {

using treadle::transform::Pass;

/// Indices that are data are checked before they are used (check_values), constant ones now: a ShapeError. For take of
/// mode "error", gather, gather_nd, scatter, scatter_add and scatter_nd. A check runs on
/// the host (tir/passes/split_host_device.h), which waits for the device there.
Pass CheckIndices();

}  // namespace treadle::relay::transform
