// SPDX-License-Identifier: Apache-2.0
// Matrix products as NumPy's matmul has them, for the rules of several operators.
#pragma once

#include <functional>

#include "frontend/onnx/node_import.h"

namespace treadle::onnx {

/// A product of two matrices, or of batches of them: a call of `op` (nn.dense, nn.matmul, nn.batch_matmul).
using ProductRule =
    std::function<relay::Expr(const char* op, const relay::Expr& a, const relay::Expr& b, const AttrList& attrs)>;

/// Operands of rank 1 and more: a vector as left operand is a row, as right operand a column, and that dimension is
/// dropped from the result; batch dimensions broadcast.
relay::Expr MatMulAnyRank(NodeImport& n, relay::Expr a, relay::Expr b);
/// As that, with `product` in place of the plain operators.
relay::Expr MatMulAnyRank(NodeImport& n, relay::Expr a, relay::Expr b, const ProductRule& product);

}  // namespace treadle::onnx
