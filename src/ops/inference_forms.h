// SPDX-License-Identifier: Apache-2.0
// Operators in terms of simpler ones, for SimplifyInference: see kInferenceForm.
#pragma once

#include "treadle/ops/traits.h"

namespace treadle::ops {

/// As a scale and a shift per channel, which fold into constants and neighbouring weights.
relay::Expr BatchNormInference(const relay::CallNode* call, const TensorTypeNode* type);
relay::Expr LayerNormInference(const relay::CallNode* call, const TensorTypeNode* type);
relay::Expr InstanceNormInference(const relay::CallNode* call, const TensorTypeNode* type);
relay::Expr GroupNormInference(const relay::CallNode* call, const TensorTypeNode* type);
relay::Expr L2NormalizeInference(const relay::CallNode* call, const TensorTypeNode* type);
relay::Expr DropoutInference(const relay::CallNode* call, const TensorTypeNode* type);

}  // namespace treadle::ops
