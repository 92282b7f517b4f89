// SPDX-License-Identifier: Apache-2.0
// com.microsoft.GroupQueryAttention, and rotary positions as both domains have them.
#pragma once

#include "frontend/onnx/compose.h"

namespace treadle::onnx {

/// [batch, sequence, heads * size] as [batch, heads, sequence, size].
relay::Expr SplitHeads(NodeImport& n, const relay::Expr& x, int64_t heads);
/// Heads of keys or values, each as often as it has heads of queries: x [batch, heads, ..], q [batch, heads, ..].
relay::Expr RepeatHeads(NodeImport& n, const relay::Expr& x, const relay::Expr& q);
/// What scores are multiplied by: the attribute `scale`, or one by the root of the size of `q`'s heads.
Term ScaleOf(NodeImport& n, const relay::Expr& q, DataType dtype);
/// x of rank 4, [.., size], its first elements turned by cosines and sines of rank 3 and more that broadcast to it,
/// with rotated / 2 elements in the last dimension.
relay::Expr Rotated(NodeImport& n, const relay::Expr& x, const relay::Expr& cos, const relay::Expr& sin,
                    bool interleaved);
/// Rows `positions` ([sequence] or [batch, sequence]) of a cache, as Rotated takes them.
relay::Expr CacheRows(NodeImport& n, const relay::Expr& cache, const relay::Expr& positions, const char* mode);
std::vector<relay::Expr> ImportGroupQueryAttention(NodeImport& n);

}  // namespace treadle::onnx
