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

/// Of the scores of some keys, per row: their maximum, exp(score - maximum) and the sum of those.
struct SoftmaxStages {
  Tensor max, exp, sum;
};
/// The softmax along the last dimension of `products` (rows.., n), products of queries and keys. Of them all are looked
/// at, so that those beyond the keys must be masked. `mask`: what is added to the score at an index. `is_part`: there
/// are other keys, so that rows may be masked as a whole; their maximum is -inf, their exponentials are 0. `round`:
/// what exponentials become, also those of the sums, so that weights still add up to 1; none: they stay.
SoftmaxStages SoftmaxOfScores(const Tensor& products, const std::function<PrimExpr(const Array<PrimExpr>&)>& mask,
                              const AttentionAttrs& attrs, const std::string& kernel, bool is_part = false,
                              const std::function<PrimExpr(const PrimExpr&)>& round = {});

/// The result (batch.., m, d), the anchor of `kernel`: products with the values over their sums (batch.., m). `anchor`:
/// attributes of the result.
Tensor DivideBySums(const Tensor& mixed, const Tensor& sum, const AttentionAttrs& attrs,
                    const Map<String, ObjectRef>& anchor);

}  // namespace treadle::ops
