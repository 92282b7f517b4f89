// SPDX-License-Identifier: Apache-2.0
// Which operands a function may write its result over.
#pragma once

#include <vector>

#include "treadle/tir/function.h"

namespace treadle::tir {

/// Attribute of functions: indices of parameters (Array of IntImm) whose memory may be that of the result, the last
/// parameter. Code generators must not assume that they are apart.
inline constexpr const char* kInPlaceOperands = "tir.in_place_operands";

/// The parameters of a function in low-level form that may lie where its result, the last parameter, does: no element
/// of the result is stored twice or read, and each element of the operand is read only for the value of the same
/// element of the result, or before the stores in that iteration of the loops around both which stores the element.
/// What can't be shown isn't so: functions of scalars or symbolic sizes, with stores under conditions on data, with
/// calls that get addresses. That every element of the result is stored is taken for granted.
std::vector<int> InPlaceOperands(const PrimFunc& func);

/// `func` with the attribute, where it has such operands.
PrimFunc WithInPlaceOperands(PrimFunc func);

/// By parameter, whether it shares its memory with another one: the operands of the attribute, and the result.
std::vector<bool> SharedParams(const PrimFunc& func, size_t num_params);

}  // namespace treadle::tir
