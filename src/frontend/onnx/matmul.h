// SPDX-License-Identifier: Apache-2.0
// Matrix products as NumPy's matmul has them, for the rules of several operators.
#pragma once

#include "frontend/onnx/node_import.h"

namespace treadle::onnx {

/// Operands of rank 1 and more: a vector as left operand is a row, as right operand a column, and that dimension is
/// dropped from the result; batch dimensions broadcast.
relay::Expr MatMulAnyRank(NodeImport& n, relay::Expr a, relay::Expr b);

}  // namespace treadle::onnx
