// SPDX-License-Identifier: Apache-2.0
// Rules that operators state for passes to rewrite their calls.
#pragma once

#include <functional>

#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

/// Gives what stands for a call with these (rewritten) arguments, or null to leave it. `types` are the argument types
/// and the result type of the original call.
using FLegalize = std::function<Expr(const Attrs& attrs, const Array<Expr>& args, const Array<Type>& types)>;
inline constexpr OpAttrKey<FLegalize> kLegalize{"FTVMLegalize"};

/// As FLegalize, for a form that runs faster; may change layouts if it transforms them back.
using FAlterOpLayout = FLegalize;
inline constexpr OpAttrKey<FAlterOpLayout> kAlterOpLayout{"FTVMAlterOpLayout"};

/// As FLegalize, for operators on quantised tensors: the call in plain operators.
inline constexpr OpAttrKey<FLegalize> kQnnCanonicalize{"FTVMQnnCanonicalize"};

/// How ToMixedPrecision treats an operator: 0 always in the low precision, 1 as its inputs, 2 never.
enum class MixedPrecisionKind : int { kAlways = 0, kFollow = 1, kNever = 2 };
inline constexpr OpAttrKey<MixedPrecisionKind> kMixedPrecision{"FTVMMixedPrecisionConversionType"};

}  // namespace treadle::relay
