// SPDX-License-Identifier: Apache-2.0
// Multiply-adds of convolutions and matrix products: what times are compared with.
#pragma once

#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

/// The multiply-adds of a call as its operator is defined, whatever the method: Winograd's counts as the direct
/// convolution. All shapes are static.
using FMacCount = double (*)(const Attrs& attrs, const Array<Type>& arguments, const Type& result);
inline constexpr OpAttrKey<FMacCount> kMacCount{"FMacCount"};

/// Multiplications that the method of the operator executes for each that kMacCount counts; 1 where it isn't
/// registered.
using FMacShare = double (*)(const Array<Type>& arguments);
inline constexpr OpAttrKey<FMacShare> kMacShare{"FMacShare"};

/// The sum over all calls in the typed `expr`, those in functions included once each. Calls of operators without
/// kMacCount and calls with a symbolic shape count nothing.
double TotalMacCount(const Expr& expr);

/// The least kMacShare of the calls in the typed `expr`: a kernel has one product.
double MacShare(const Expr& expr);

}  // namespace treadle::relay
