// SPDX-License-Identifier: Apache-2.0
// Shapes that depend on operands' values: how operators compute them when a model runs.
#pragma once

#include <functional>

#include "treadle/ir/op.h"

namespace treadle::ops {

/// Element number `index` (in row-major order) of integer operand `operand` (tuples flattened), as an int64 expression.
using ElementOf = std::function<PrimExpr(size_t operand, int64_t index)>;
/// The dimensions of each result, from the operands' types (whose dimensions may be symbolic) and elements. Element
/// counts of the operands that are asked for are constants.
using FShapeFunction = std::function<Array<Array<PrimExpr>>(const Attrs& attrs, const Array<TensorType>& operands,
                                                            const ElementOf& element)>;
/// Of operators with the property kDataDependentShape. Those without one aren't for the VM.
inline constexpr OpAttrKey<FShapeFunction> kShapeFunction{"FShapeFunction"};

}  // namespace treadle::ops
