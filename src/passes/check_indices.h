// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

/// Throws ShapeError where an operand of a typed call holds constant indices that are out of range. For what computes a
/// call before CheckIndices has seen it.
void CheckConstantIndices(const CallNode* call);

namespace transform {

using treadle::transform::Pass;

/// Indices that are data are checked before they are used (check_values), constant ones now: a ShapeError. For take of
/// mode "error", gather, gather_nd, scatter, scatter_add and scatter_nd. A check runs on
/// the host (tir/passes/split_host_device.h), which waits for the device there.
Pass CheckIndices();

}  // namespace transform
}  // namespace treadle::relay
