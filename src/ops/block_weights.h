// SPDX-License-Identifier: Apache-2.0
// Products with weights of 4 or 8 bits that have a scale and a zero point for every block of rows, as
// qnn.contrib_block_dense takes them.
#pragma once

#include <cstdint>
#include <vector>

#include "treadle/ops/attrs/qnn.h"
#include "treadle/relay/expr.h"

namespace treadle::ops::qnn {

/// Of a weight with `n` columns of `k` numbers of `bits` bits (unsigned). `blocks` is k / block, rounded up.
struct BlockWeights {
  int64_t k, n, bits, block, blocks;
};

/// Longer blocks' sums wouldn't stay within 24 bits, in which float32 is exact.
inline constexpr int64_t kLongestBlock = 256;

/// Number `i` of numbers of `bits` bits packed in bytes, the first in the low bits.
inline int Unpacked(const uint8_t* bytes, int64_t i, int64_t bits) {
  const int64_t at = i * bits;
  return (bytes[at / 8] >> (at % 8)) & ((1 << bits) - 1);
}

/// Those of a call of qnn.contrib_block_product with operands of these types.
BlockWeights BlockWeightsOf(const BlockProductAttrs& attrs, const TensorTypeNode* data, const TensorTypeNode* weight);

/// Rows `x` (rows, k; float32) times the weights: (rows, n) float32. `packed` (uint8) has the numbers of column after
/// column, blocks filled up to whole ones; scales and zero points are (n, blocks). The rows may be rounded to `digits`
/// bytes, 1 or 2, with a scale for every block. A call of qnn.contrib_block_product, which QnnCanonicalize writes as
/// one of qnn.contrib_block_dense.
relay::Expr BlockProduct(const relay::Expr& x, const BlockWeights& w, const runtime::NDArray& packed,
                         const std::vector<double>& scales, const std::vector<double>& zeros, int digits);

}  // namespace treadle::ops::qnn
