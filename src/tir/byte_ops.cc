// SPDX-License-Identifier: Apache-2.0
#include "treadle/tir/byte_ops.h"

#include <utility>

#include "treadle/tir/pair_ops.h"

namespace treadle::tir {
namespace {

DataType Word(const PrimExpr& like) { return DataType::Int(32, like.dtype().lanes()); }

/// Byte `i` of a word, widened to int32.
PrimExpr ByteOf(const PrimExpr& word, int i, bool is_signed) {
  const DataType dtype = word.dtype();
  if (!is_signed) {
    return bitwise_and(right_shift(word, make_const(dtype, int64_t{8} * i)), make_const(dtype, int64_t{255}));
  }
  return right_shift(left_shift(word, make_const(dtype, int64_t{24 - 8 * i})), make_const(dtype, int64_t{24}));
}

}  // namespace

PrimExpr pack_bytes(PrimExpr b0, PrimExpr b1, PrimExpr b2, PrimExpr b3) {
  const DataType word = Word(b0);
  for (const PrimExpr& b : {b0, b1, b2, b3}) {
    if (!b.dtype().is_integral() || b.dtype().bits() != 8 || b.dtype() != b0.dtype()) {
      throw DTypeError(StrCat("tir.pack_bytes takes four bytes of one type, not ", b.dtype()));
    }
  }
  return Call(word, Op::Get("tir.pack_bytes"), {std::move(b0), std::move(b1), std::move(b2), std::move(b3)});
}

PrimExpr dot_bytes(PrimExpr a, PrimExpr b) {
  if (a.dtype().element_of() != DataType::Int(32) || b.dtype() != a.dtype()) {
    throw DTypeError(StrCat("tir.dot_bytes takes words (int32), not ", a.dtype(), " and ", b.dtype()));
  }
  const DataType word = Word(a);
  return Call(word, Op::Get("tir.dot_bytes"), {std::move(a), std::move(b)});
}

PrimExpr dot_two_words(PrimExpr a, PrimExpr b, PrimExpr c, PrimExpr d) {
  for (const PrimExpr& word : {a, b, c, d}) {
    if (word.dtype().element_of() != DataType::Int(32) || word.dtype() != a.dtype()) {
      throw DTypeError(StrCat("tir.dot_two_words takes words (int32), not ", word.dtype(), " beside ", a.dtype()));
    }
  }
  const DataType word = Word(a);
  return Call(word, Op::Get("tir.dot_two_words"), {std::move(a), std::move(b), std::move(c), std::move(d)});
}

PrimExpr pack_shorts(PrimExpr low, PrimExpr high) {
  const DataType word = Word(low);
  for (const PrimExpr& half : {low, high}) {
    if (half.dtype().element_of() != DataType::Int(16) || half.dtype() != low.dtype()) {
      throw DTypeError(StrCat("tir.pack_shorts takes two int16, not ", half.dtype()));
    }
  }
  return Call(word, Op::Get("tir.pack_shorts"), {std::move(low), std::move(high)});
}

PrimExpr dot_shorts(PrimExpr a, PrimExpr b) {
  if (a.dtype().element_of() != DataType::Int(32) || b.dtype() != a.dtype()) {
    throw DTypeError(StrCat("tir.dot_shorts takes words (int32), not ", a.dtype(), " and ", b.dtype()));
  }
  const DataType word = Word(a);
  return Call(word, Op::Get("tir.dot_shorts"), {std::move(a), std::move(b)});
}

PrimExpr round_clamped(PrimExpr x, PrimExpr low, PrimExpr high) {
  if (x.dtype().element_of() != DataType::Float(32)) {
    throw DTypeError(StrCat("tir.round_clamped takes float32, not ", x.dtype()));
  }
  const DataType word = Word(x);
  return Call(word, Op::Get("tir.round_clamped"), {std::move(x), std::move(low), std::move(high)});
}

PrimExpr divide_by_scale(PrimExpr x, PrimExpr scale) {
  for (const PrimExpr& e : {x, scale}) {
    if (e.dtype().element_of() != DataType::Float(32)) {
      throw DTypeError(StrCat("tir.divide_by_scale takes float32, not ", e.dtype()));
    }
  }
  const DataType dtype = x.dtype();
  return Call(dtype, Op::Get("tir.divide_by_scale"), {std::move(x), std::move(scale)});
}

PrimExpr ExpandByteOp(const CallNode* call) {
  const DataType word = call->dtype;
  if (IsCallTo(call, "tir.pack_bytes")) {
    PrimExpr result;
    for (int i = 0; i < 4; ++i) {
      const PrimExpr& byte = call->args[static_cast<size_t>(i)];
      PrimExpr wide = bitwise_and(cast(word, byte), make_const(word, int64_t{255}));
      if (i > 0) wide = left_shift(wide, make_const(word, int64_t{8} * i));
      result = i == 0 ? wide : bitwise_or(result, wide);
    }
    return result;
  }
  if (IsCallTo(call, "tir.dot_bytes")) {
    PrimExpr result;
    for (int i = 0; i < 4; ++i) {
      PrimExpr product = ByteOf(call->args[0], i, false) * ByteOf(call->args[1], i, true);
      result = i == 0 ? product : result + product;
    }
    return result;
  }
  if (IsCallTo(call, "tir.dot_two_words")) {
    return dot_bytes(call->args[0], call->args[1]) + dot_bytes(call->args[2], call->args[3]);
  }
  if (IsCallTo(call, "tir.pack_shorts")) {
    const PrimExpr low = bitwise_and(cast(word, call->args[0]), make_const(word, int64_t{65535}));
    return bitwise_or(low, left_shift(cast(word, call->args[1]), make_const(word, int64_t{16})));
  }
  if (IsCallTo(call, "tir.dot_shorts")) {
    const PrimExpr half = make_const(word, int64_t{16});
    auto high = [&](const PrimExpr& e) { return right_shift(e, half); };
    auto low = [&](const PrimExpr& e) { return right_shift(left_shift(e, half), half); };
    return low(call->args[0]) * low(call->args[1]) + high(call->args[0]) * high(call->args[1]);
  }
  if (IsCallTo(call, "tir.round_clamped")) {
    const PrimExpr &x = call->args[0], &low = call->args[1], &high = call->args[2];
    // A comparison with NaN is false.
    PrimExpr clamped = min(select(x > low, x, low), high);
    return cast(word, nearbyint(clamped));
  }
  if (IsCallTo(call, "tir.divide_by_scale")) return call->args[0] / call->args[1];
  return ExpandPairOp(call);
}

}  // namespace treadle::tir
