// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay::transform {

using treadle::transform::Pass;

/// Attention as exporters write it - a product of queries and keys, a scale, a mask, softmax, a product with the
/// values - becomes one operator (nn.attention), where shapes are known and no part of it is used elsewhere.
Pass FuseAttention();

}  // namespace treadle::relay::transform
