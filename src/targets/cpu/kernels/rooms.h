// SPDX-License-Identifier: Apache-2.0
// What rooms give others: problems of calls, and the stage of packed products. Rooms themselves are listed by their
// files' names (kernels.cc).
#pragma once

#include "targets/cpu/kernels/kernels.h"
#include "treadle/te/tensor.h"

namespace treadle::ops::cpu {

Problem ByteConvProblem(const relay::CallNode* call, const relay::LayoutArgs& args);
Problem ConvTransposeProblem(const relay::CallNode* call, const relay::LayoutArgs& args);
Problem MatmulProblem(const relay::CallNode* call, const relay::LayoutArgs& args);
Problem AttentionProblem(const relay::CallNode* call, const relay::LayoutArgs& args);
Problem RecurrentProblem(const relay::CallNode* call, const relay::LayoutArgs& args);
Problem ByteRecurrentProblem(const relay::CallNode* call, const relay::LayoutArgs& args, const Machine& machine);

/// Attributes of the sum of a product with a packed right operand (batch.., n / 16, k, 16), which kernel matmul.packed
/// schedules.
Map<String, ObjectRef> PackedMatmulStage(const te::Tensor& data, const te::Tensor& weight, const TensorTypeNode* type);

}  // namespace treadle::ops::cpu
