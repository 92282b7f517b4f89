// SPDX-License-Identifier: Apache-2.0
// Words (int32) of neighbouring elements, which take the place of floats in products: four bytes (uint8 by int8), two
// int16 (treadle/tir/byte_ops.h), or two bfloat16 (treadle/tir/pair_ops.h).
#pragma once

#include "ops/te_util.h"
#include "treadle/base/int_math.h"
#include "treadle/schedule/machine.h"
#include "treadle/tir/byte_ops.h"
#include "treadle/tir/pair_ops.h"

namespace treadle::ops::cpu {

inline const DataType kWord = DataType::Int(32);

/// Elements of a word: 4 bytes, 2 int16 or 2 bfloat16.
inline int64_t PerWord(DataType dtype) { return 32 / dtype.bits(); }

/// Whether products of such integers are computed by words.
inline bool HasWords(DataType data, DataType weight) {
  return (data == DataType::UInt(8) && weight == DataType::Int(8)) ||
         (data == DataType::Int(16) && weight == DataType::Int(16));
}

/// The word of element(0), element(1), .. of `dtype`.
template <typename F>
PrimExpr MakeWord(DataType dtype, F element) {
  if (dtype == DataType::BFloat(16)) return tir::pack_pair(element(0), element(1));
  if (PerWord(dtype) == 2) return tir::pack_shorts(element(0), element(1));
  return tir::pack_bytes(element(0), element(1), element(2), element(3));
}

/// Words that hold so many elements.
inline PrimExpr Words(const PrimExpr& elements, DataType dtype) {
  const int64_t* known = AsConstInt(elements);
  const int64_t each = PerWord(dtype);
  if (known != nullptr) return Index(CeilDiv(*known, each));
  return tir::floordiv(elements + (each - 1), Index(each));
}

/// Word `word` of element(0), element(1), ..; 0 where they are beyond `extent`, which its first one never is.
template <typename F>
PrimExpr WordOf(const PrimExpr& word, const PrimExpr& extent, DataType dtype, F element) {
  const int64_t* known = AsConstInt(extent);
  const bool whole = known != nullptr && *known % PerWord(dtype) == 0;
  return MakeWord(dtype, [&](int64_t i) {
    const PrimExpr at = word * Index(PerWord(dtype)) + Index(i);
    return whole || i == 0 ? element(at) : tir::if_then_else(at < extent, element(at), tir::make_zero(dtype));
  });
}

/// The sum of products of two words' elements: float32 of bfloat16, else int32.
inline PrimExpr DotOfWords(DataType dtype, const PrimExpr& data, const PrimExpr& weight) {
  if (dtype == DataType::BFloat(16)) return tir::dot_pairs(data, weight);
  return PerWord(dtype) == 2 ? tir::dot_shorts(data, weight) : tir::dot_bytes(data, weight);
}

/// The machine's costs with those of a dot product of words in place of a multiply-add.
inline schedule::Machine WithDotsOfWords(DataType dtype, schedule::Machine machine) {
  if (dtype == DataType::BFloat(16)) machine.fma_cycles = machine.pair_dot_cycles;
  return machine;
}

}  // namespace treadle::ops::cpu
