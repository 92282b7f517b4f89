// SPDX-License-Identifier: Apache-2.0
// Intrinsics for arithmetic on bytes. Four neighbouring bytes are one int32 ("word", the first byte in the low bits),
// so that computations on words have the form of those on float32: a tile of sums, a word of one operand that meets a
// vector of words of the other. Code generators have instructions for them (VNNI's vpdpbusd, vpmaddwd) or expand them.
#pragma once

#include "treadle/ir/prim_ops.h"

namespace treadle::tir {

/// The word of four bytes (uint8 or int8): one load where they are neighbours in memory. int32.
PrimExpr pack_bytes(PrimExpr b0, PrimExpr b1, PrimExpr b2, PrimExpr b3);
/// sum of a[i] * b[i] over the bytes of two words, those of `a` taken as uint8, those of `b` as int8. Exact; int32.
PrimExpr dot_bytes(PrimExpr a, PrimExpr b);
/// dot_bytes(a, b) + dot_bytes(c, d). Exact where a[i] * b[i] + a[i + 1] * b[i + 1] + c[i] * d[i] + c[i + 1] * d[i + 1]
/// and each half of it fit int16, for i of 0 and 2, which the caller proves; int32.
PrimExpr dot_two_words(PrimExpr a, PrimExpr b, PrimExpr c, PrimExpr d);
/// The word of two int16: one load where they are neighbours in memory. int32.
PrimExpr pack_shorts(PrimExpr low, PrimExpr high);
/// sum of a[i] * b[i] over the int16 of two words. Exact but for -2^15 everywhere; int32.
PrimExpr dot_shorts(PrimExpr a, PrimExpr b);
/// `x` (float32), clamped to [low, high] and rounded half to even; NaN becomes `low`. The bounds must be integers of at
/// most 2^23 in absolute value. int32.
PrimExpr round_clamped(PrimExpr x, PrimExpr low, PrimExpr high);

/// Scales by which divide_by_scale divides exactly: their reciprocals, products and remainders are normal numbers.
inline constexpr float kLeastScale = 0x1p-100F, kLargestScale = 0x1p100F;
/// x / scale (float32), for a scale within these bounds that neighbours share: rounding the quotient to an integer
/// needs no division.
PrimExpr divide_by_scale(PrimExpr x, PrimExpr scale);

/// What a call of one of these, or of those of pair_ops.h, is in arithmetic that every target has; null for others.
PrimExpr ExpandByteOp(const CallNode* call);

}  // namespace treadle::tir
