// SPDX-License-Identifier: Apache-2.0
// What all computations of attention share: nn.attention here, and the kernels of targets.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/infer.h"
#include "ops/te_util.h"
#include "treadle/ir/op.h"
#include "treadle/ops/attrs/attention.h"

namespace treadle::ops {

/// nn.attention.
void RegisterAttentionOps();

/// Starts the registration of a form of attention: arguments query, key, value and mask.
OpRegistration AttentionOp(const char* name, const char* text);

/// query (batch.., m, s), key (batch.., n, s), value (batch.., n, d), mask (..., n): (batch.., m, d) float32.
Type AttentionInfer(const InferContext& context);
/// ShapeError where the operands' batches, inner dimensions or the mask don't fit; `keys` is the number of scores.
void CheckAttentionBatch(const InferContext& context, const TensorTypeNode* query, const TensorTypeNode* other,
                         size_t batch);
void CheckAttentionInner(const PrimExpr& a, const PrimExpr& b, const char* what, const InferContext& context);
void CheckAttentionMask(const InferContext& context, const TensorTypeNode* query, const PrimExpr& keys);

/// The first `keep` entries of `index`, then `last`.
Array<PrimExpr> ReplaceLast(const Array<PrimExpr>& index, size_t keep, const std::vector<PrimExpr>& last);

/// The stages after `products` (batch.., m, n'), the products of queries and keys: scores, maximum, exponentials, sum,
/// `mix` (their product with the values), and the result, which is the anchor of `kernel`. Of the products all are
/// looked at, so that those beyond the keys must be masked. `mask`: what is added to the score at an index. `anchor`:
/// attributes of the result.
Tensor FinishAttention(const Tensor& products, const std::function<PrimExpr(const Array<PrimExpr>&)>& mask,
                       const AttentionAttrs& attrs, const std::string& kernel, const Map<String, ObjectRef>& anchor,
                       const std::function<Tensor(const Tensor& weights)>& mix);

}  // namespace treadle::ops
