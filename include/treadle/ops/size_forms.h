// SPDX-License-Identifier: Apache-2.0
// What dynamic sizes are worth a kernel of their own.
#pragma once

#include <functional>

#include "treadle/ir/op.h"
#include "treadle/ir/type.h"

namespace treadle::ops {

/// Dimensions of a call's operands that are worth a kernel of their own where all of them are 1 in a run. Empty: there
/// are none.
using FFormForOne = std::function<Array<PrimExpr>(const Attrs& attrs, const Array<Type>& operands)>;
/// Rows (a decoder's step, one sequence): reading a weight for one row wants other loops than a product of many.
inline constexpr OpAttrKey<FFormForOne> kFormForOneRow{"TFormForOneRow"};
/// Columns (a product with a vector, a softmax of what lies in one run of memory): rows are contiguous then.
inline constexpr OpAttrKey<FFormForOne> kFormForOneColumn{"TFormForOneColumn"};

}  // namespace treadle::ops
