// SPDX-License-Identifier: Apache-2.0
// Replaces matrix products among tensor expressions by packed ones.
#pragma once

#include "treadle/te/tensor.h"

namespace treadle::ops::cpu {

/// The tensors with each float32 product C[.., i, j] = sum over k of A[.., i, k] * B[.., k, j] (or B[.., j, k]) as
/// nn.packing_matmul computes it, where that is worth it.
Array<te::Tensor> WithPackedProducts(const Array<te::Tensor>& tensors);

}  // namespace treadle::ops::cpu
