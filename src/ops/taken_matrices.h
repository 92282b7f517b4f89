// SPDX-License-Identifier: Apache-2.0
// Products of one row or column with matrices that are taken from among others, as those of a mixture of experts are
// (Shazeer et al. 2017, "Outrageously Large Neural Networks"): each element of a matrix is read once, so that it is
// read where it lies. A copy for each token would be read, written and read again.
#pragma once

#include <optional>

#include "treadle/relay/call_pattern.h"

namespace treadle::ops {

/// kCallPattern of take: whole matrices (.., m, n) of (count, m, n) can be taken within what reads them.
std::optional<OpPatternKind> PatternOfTake(const relay::CallNode* call);
/// kCallPattern of products of batches (batch, m, k) and (batch, k, n): a product of such a matrix by one row or column
/// takes it in, as a reduction does.
std::optional<OpPatternKind> PatternOfProduct(const relay::CallNode* call);

}  // namespace treadle::ops
