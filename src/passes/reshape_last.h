// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

/// The matrix `rows`, of `columns` columns, with the leading dimensions of `like`, whose type is `type` and whose sizes
/// are read in the run. Has the span of `rows`.
Call RowsApart(const Call& rows, const Expr& like, const TensorTypeNode* type, int64_t columns);

namespace transform {

using treadle::transform::Pass;

/// Element-wise operators behind a reshape of a product come before it: then they and the product are one kernel.
Pass ReshapeLast();

}  // namespace transform
}  // namespace treadle::relay
