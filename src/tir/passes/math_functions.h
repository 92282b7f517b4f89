// SPDX-License-Identifier: Apache-2.0
// Mathematical functions as expressions of additions, multiplications, divisions, square roots and bit operations.
//
// Errors against the exact result, in units in the last place: float32 at most 2 (mostly 1), float64 a few, growing
// with the size of the result's logarithm for pow. Special values follow IEEE 754. sin, cos and tan reduce their
// argument with 120 bits of pi and are meant for |x| below 2^28. sigmoid of float32 is 0 below 2^-125.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/prim_expr.h"

namespace treadle::tir {

/// The function `name` ("exp", "tanh", ...) of float32 or float64 arguments (any lanes), or `otherwise` where code
/// generators have it themselves (sqrt, floor, ..) or it isn't such a function.
PrimExpr ExpandMathFunction(const std::string& name, const std::vector<PrimExpr>& args, const PrimExpr& otherwise);

}  // namespace treadle::tir
