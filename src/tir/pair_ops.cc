// SPDX-License-Identifier: Apache-2.0
#include "treadle/tir/pair_ops.h"

#include <utility>

namespace treadle::tir {
namespace {

constexpr int kHalf = 16;
constexpr int64_t kLowMask = 0xffff;

/// The bits of a bfloat16 in the low half of an int32.
PrimExpr BitsOf(const PrimExpr& value, DataType word) {
  const PrimExpr wide = cast(DataType::Float(32, word.lanes()), value);
  return bitwise_and(right_shift(reinterpret(word, wide), make_const(word, int64_t{kHalf})),
                     make_const(word, kLowMask));
}

PrimExpr ValueOf(const PrimExpr& word, bool high) {
  const DataType dtype = word.dtype(), f32 = DataType::Float(32, dtype.lanes());
  if (high) return reinterpret(f32, bitwise_and(word, make_const(dtype, ~kLowMask)));
  return reinterpret(f32, left_shift(word, make_const(dtype, int64_t{kHalf})));
}

}  // namespace

PrimExpr pair_half(PrimExpr value) {
  if (value.dtype().element_of() != DataType::Float(32)) {
    throw DTypeError(StrCat("tir.pair_half takes a float32, not ", value.dtype()));
  }
  const DataType half = DataType::BFloat(16, value.dtype().lanes());
  return Call(half, Op::Get("tir.pair_half"), {std::move(value)});
}

PrimExpr pack_pair(PrimExpr low, PrimExpr high) {
  for (const PrimExpr& half : {low, high}) {
    if (!half.dtype().is_bfloat16() || half.dtype() != low.dtype()) {
      throw DTypeError(StrCat("tir.pack_pair takes two bfloat16, not ", half.dtype()));
    }
  }
  const DataType word = DataType::Int(32, low.dtype().lanes());
  return Call(word, Op::Get("tir.pack_pair"), {std::move(low), std::move(high)});
}

PrimExpr dot_pairs(PrimExpr a, PrimExpr b) {
  if (a.dtype().element_of() != DataType::Int(32) || b.dtype() != a.dtype()) {
    throw DTypeError(StrCat("tir.dot_pairs takes words (int32), not ", a.dtype(), " and ", b.dtype()));
  }
  const DataType sum = DataType::Float(32, a.dtype().lanes());
  return Call(sum, Op::Get("tir.dot_pairs"), {std::move(a), std::move(b)});
}

PrimExpr ExpandPairOp(const CallNode* call) {
  if (IsCallTo(call, "tir.pair_half")) return cast(call->dtype, call->args[0]);
  if (IsCallTo(call, "tir.pack_pair")) {
    const PrimExpr high = left_shift(BitsOf(call->args[1], call->dtype), make_const(call->dtype, int64_t{kHalf}));
    return bitwise_or(BitsOf(call->args[0], call->dtype), high);
  }
  if (IsCallTo(call, "tir.dot_pairs")) {
    const PrimExpr &a = call->args[0], &b = call->args[1];
    return ValueOf(a, false) * ValueOf(b, false) + ValueOf(a, true) * ValueOf(b, true);
  }
  return PrimExpr(ObjectPtr<Object>());
}

}  // namespace treadle::tir
