// SPDX-License-Identifier: Apache-2.0
// Packing of right operands of matrix products into the order in which kernels read them.
#pragma once

#include "treadle/relay/expr.h"
#include "treadle/te/tensor.h"

namespace treadle::ops::cpu {

/// Columns that are packed together.
inline constexpr int64_t kPackedColumns = 16;

/// The packed form (batch.., ceil(n / 16), k, 16) of `operand`, of static type `type` and layout (batch.., n, k) or,
/// `k_first`, (batch.., k, n). Columns that only fill the last block are zeros.
relay::Expr PackColumns(relay::Expr operand, const TensorTypeNode* type, bool k_first);

/// Attributes of the sum of a product with a packed right operand (batch.., n / 16, k, 16), which kernel matmul.packed
/// schedules.
Map<String, ObjectRef> PackedMatmulStage(const te::Tensor& data, const te::Tensor& weight, const TensorTypeNode* type);

}  // namespace treadle::ops::cpu
