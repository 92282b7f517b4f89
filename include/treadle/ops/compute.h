// SPDX-License-Identifier: Apache-2.0
// What operators have beyond the graph IR's own properties (ir/op.h): their tensor computation and layout rule.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "treadle/ir/op.h"
#include "treadle/te/tensor.h"

namespace treadle::ops {

/// The operator as a tensor expression. Tuple operands come flattened; a tuple result is one tensor per field.
/// `out_type` is the inferred type of the call. Input shapes may be symbolic.
using FTECompute =
    std::function<Array<te::Tensor>(const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type)>;
inline constexpr OpAttrKey<FTECompute> kCompute{"FTECompute"};

/// Tags that computations carry for schedules to recognise them: te::OperationNode::tag.
namespace tag {
inline constexpr const char* kElemWise = "elemwise";
inline constexpr const char* kBroadcast = "broadcast";
inline constexpr const char* kInjective = "injective";
inline constexpr const char* kPad = "injective,pad";
inline constexpr const char* kCommReduce = "comm_reduce";
inline constexpr const char* kCommReduceIdx = "comm_reduce_idx";
inline constexpr const char* kPoolMax = "pool_max";
inline constexpr const char* kPoolAvg = "pool_avg";
// Not inlined: their values are used more than once, or they are reductions with something to exploit.
inline constexpr const char* kDense = "dense";    ///< (.., k) x (n, k)
inline constexpr const char* kMatmul = "matmul";  ///< (.., k) x (k, n), or transposed forms
inline constexpr const char* kBatchMatmul = "batch_matmul";
inline constexpr const char* kConvTranspose = "conv_transpose";  ///< one convolution for each phase of the stride
inline constexpr const char* kSoftmaxExp = "softmax_exp";
inline constexpr const char* kSoftmaxOutput = "softmax_output";
// Convolutions: conv2d_nchw, depthwise_conv2d_nchw, group_conv2d_nhwc, conv1d_ncw, ...: kind, rank, layout in lower
// case.
}  // namespace tag

/// Registers all operators of the graph IR. Idempotent and thread-safe.
void RegisterAllOps();

}  // namespace treadle::ops
