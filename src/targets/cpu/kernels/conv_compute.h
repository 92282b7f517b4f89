// SPDX-License-Identifier: Apache-2.0
// The tensor expressions that convolutions on channel-blocked activations share, for any element type: floats, words of
// bytes (byte_conv.cc) or pairs of bfloat16 (pair_conv.cc). Kernel conv2d.direct schedules them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/infer.h"
#include "targets/cpu/kernels/kernels.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/te/tensor.h"

namespace treadle::ops::cpu {

inline constexpr const char* kDirectConv = "conv2d.direct";
inline constexpr const char* kDepthwiseConv = "conv2d.depthwise";
/// The operator of depthwise convolutions with channels last.
inline constexpr const char* kDepthwiseConvNhwc = "nn.contrib_depthwise_conv2d_NHWC";

/// The problem of a computation: the sizes of SetBlockedSizes (conv_layout.h), the window's and the types. `kernel` is
/// (OC/ob, IC/groups/ib, KH, KW, ...).
void SetConvProblem(const Conv2DAttrs* attrs, const te::Tensor& data, const te::Tensor& kernel,
                    const TensorTypeNode* type, ConvProblemNode* problem);
/// The type of sums of `sum` over data of `dtype` where the weight's form is the kernel's own: attributes say channels
/// and window.
Type PackedConvInfer(const InferContext& context, DataType dtype, DataType sum);
/// As PackedConvInfer, for data in blocks of channels and weights (OC/ob, IC/groups/ib, KH, KW, ib/each, ob) of words
/// of `each` channels.
Type WordConvInfer(const InferContext& context, DataType dtype, int64_t each, DataType sum);
/// ShapeError unless words of a weight are int32 of the shape `wanted`: computations read what a text gives them.
void CheckWords(const Array<PrimExpr>& shape, DataType dtype, const Array<PrimExpr>& wanted);
/// Multiply-adds of such a convolution.
double PackedConvMacs(const Attrs& attrs, const Array<Type>& arguments, const Type& result);

/// ShapeError unless data, kernel and result are split into blocks as kernels of blocked channels read them: data
/// (N, C, H, W, ib) or plain; kernel (OC, IC, KH, KW, ib, ob), or (OC, IC, KH, KW, ob) where `one_block` or for plain
/// data; result (N, OC, OH, OW, ob).
void CheckBlocked(const te::Tensor& data, const te::Tensor& kernel, const TensorTypeNode* type, bool one_block);
/// `data` as `dtype`: elements of 16 bits are widened once, where padding makes a copy, rather than for each tap.
te::Tensor Widened(const te::Tensor& data, DataType dtype);
/// Puts `value` (a scalar; null: zeros) around rows and columns, dimension `rows` and the one after it: stage "pad" of
/// `kernel`. `pads`: top, left, bottom, right.
te::Tensor PadSpatial(const te::Tensor& data, const std::vector<int64_t>& pads, const std::string& kernel,
                      const PrimExpr& value = PrimExpr(), size_t rows = 2);

/// What a direct convolution sums over, for a weight (OC/ob, IC/groups/ib, KH, KW, parts of ib, ob).
struct ConvReduceAxes {
  te::IterVar ic, kh, kw, ii;  ///< blocks of input channels; rows and columns of the kernel; parts of a block
  PrimExpr outputs, inputs;    ///< blocks of a group
  bool grouped;

  ConvReduceAxes(const Conv2DAttrs* attrs, const te::Tensor& kernel);
  Array<te::IterVar> Axes() const { return {ic, kh, kw, ii}; }
  /// The block of input channels that block `oc` of output channels meets.
  PrimExpr InputBlock(const PrimExpr& oc) const {
    return grouped ? tir::floordiv(oc, outputs) * inputs + ic->var : PrimExpr(ic->var);
  }
  PrimExpr Weight(const te::Tensor& kernel, const PrimExpr& oc, const PrimExpr& lane) const {
    return kernel(oc, ic->var, kh->var, kw->var, ii->var, lane);
  }
};

/// A product of the sum at image `n` and channel `lane` of block `oc`, of the element of `data` at `row`, `column`.
using ConvTerm = std::function<PrimExpr(const te::Tensor& data, const PrimExpr& n, const PrimExpr& oc,
                                        const PrimExpr& row, const PrimExpr& column, const PrimExpr& lane)>;
/// The sums (N, OC/ob, OH, OW, ob) of a direct convolution of padded `data`; OH and OW are one axis where the problem
/// fuses them, so that rows of any width fill tiles.
Array<te::Tensor> DirectConvSums(const Problem& problem, const Conv2DAttrs* attrs, const te::Tensor& data,
                                 const te::Tensor& kernel, const TensorTypeNode* type, const ConvReduceAxes& axes,
                                 const ConvTerm& term);

}  // namespace treadle::ops::cpu
