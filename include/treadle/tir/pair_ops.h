// SPDX-License-Identifier: Apache-2.0
// Intrinsics for products of bfloat16 that are summed in float32. Two neighbours are one int32 ("word", the first in
// the low half), so that computations on words have the form of those on float32 (treadle/tir/byte_ops.h does so with
// four bytes). Code generators have instructions for them (vdpbf16ps, bfdot) or expand them.
#pragma once

#include "treadle/ir/prim_ops.h"

namespace treadle::tir {

/// A float32 rounded to bfloat16, half to even, as pack_pair takes it. Whether a number below the least normal one
/// becomes 0 is the machine's choice, since dot_pairs may take it for 0 anyway; otherwise it is a cast.
PrimExpr pair_half(PrimExpr value);
/// The word of two bfloat16: one load where they are neighbours in memory. int32.
PrimExpr pack_pair(PrimExpr low, PrimExpr high);
/// a.low * b.low + a.high * b.high of two words (int32). float32; how it is rounded, and whether numbers below the
/// least normal one count, is the machine's choice.
PrimExpr dot_pairs(PrimExpr a, PrimExpr b);

/// What a call of one of these is in arithmetic that every target has; null for other calls.
PrimExpr ExpandPairOp(const CallNode* call);

}  // namespace treadle::tir
