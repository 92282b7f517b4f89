// SPDX-License-Identifier: Apache-2.0
// What dynamic sizes are worth a kernel of their own.
#pragma once

#include <functional>

#include "treadle/ir/op.h"
#include "treadle/ir/type.h"

namespace treadle::ops {

/// Dimensions of a call's operands that are worth a kernel of their own where all of them are 1 in a run (a decoder's
/// step, one sequence): reading a weight for one row wants other loops than a product of many. Empty: there are none.
using FFormForOne = std::function<Array<PrimExpr>(const Array<Type>& operands)>;
inline constexpr OpAttrKey<FFormForOne> kFormForOne{"TFormForOne"};

}  // namespace treadle::ops
