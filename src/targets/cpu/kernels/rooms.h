// SPDX-License-Identifier: Apache-2.0
// The rooms that the list of kernels (kernels.cc) is made of.
#pragma once

#include "targets/cpu/kernels/kernels.h"
#include "treadle/te/tensor.h"

namespace treadle::ops::cpu {

Problem ConvTransposeProblem(const relay::CallNode* call, const relay::LayoutArgs& args);
Problem MatmulProblem(const relay::CallNode* call, const relay::LayoutArgs& args);
Problem AttentionProblem(const relay::CallNode* call, const relay::LayoutArgs& args);

void RegisterDepthwiseConv();
void RegisterGroupedConv();
void RegisterWinograd();
void RegisterDirectConv();
void RegisterFlatPointwiseConv();
void RegisterConvTranspose();
void RegisterPackedMatmul();
void RegisterPackedAttention();
void RegisterRowConv();
void RegisterByteConv();
void RegisterByteMatmul();
void RegisterBlockDenseOp();
void RegisterPairMatmul();
void RegisterPairConv();

/// Attributes of the sum of a product with a packed right operand (batch.., n / 16, k, 16), which kernel matmul.packed
/// schedules.
Map<String, ObjectRef> PackedMatmulStage(const te::Tensor& data, const te::Tensor& weight, const TensorTypeNode* type);

}  // namespace treadle::ops::cpu
