// SPDX-License-Identifier: Apache-2.0
// com.microsoft.GroupQueryAttention, and rotary positions as operators of com.microsoft have them.
#pragma once

#include "frontend/onnx/node_import.h"

namespace treadle::onnx {

/// x [batch, heads, sequence, size] turned by cosines and sines that broadcast to [batch, 1, sequence, rotated / 2].
relay::Expr Rotated(NodeImport& n, const relay::Expr& x, const relay::Expr& cos, const relay::Expr& sin,
                    bool interleaved);
/// Rows `positions` ([sequence] or [batch, sequence]) of a cache, as Rotated takes them.
relay::Expr CacheRows(NodeImport& n, const relay::Expr& cache, const relay::Expr& positions);
std::vector<relay::Expr> ImportGroupQueryAttention(NodeImport& n);

}  // namespace treadle::onnx
