// SPDX-License-Identifier: Apache-2.0
// Structural equality that takes numbers which differ by little for the same.
#pragma once

#include "treadle/ir/structural.h"

namespace treadle {

/// As StructuralEqual, but two floating-point fields (attributes such as epsilon, immediates) are equal when they
/// differ by less than `tolerance`, an absolute value. Such terms need not have equal hashes.
bool StructuralEqualWithin(const ObjectRef& a, const ObjectRef& b, bool map_free_vars, double tolerance);

}  // namespace treadle
