// SPDX-License-Identifier: Apache-2.0
// The tensor expressions of a convolution by Winograd's method on channel-blocked activations, for floats (winograd.cc)
// or pairs of int16 (byte_winograd.cc). Kernel conv2d.winograd schedules them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/infer.h"
#include "targets/cpu/kernels/kernels.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/te/tensor.h"

namespace treadle::ops::cpu {

inline constexpr const char* kWinogradConv = "conv2d.winograd";

/// What computations differ in.
struct WinogradElements {
  /// What pads hold, a scalar.
  PrimExpr pad;
  /// A product of the sum: `input` gives channel c of a block of transformed inputs, `part` counts the block's parts
  /// in the weight, of which `weight` is an element.
  std::function<PrimExpr(const std::function<PrimExpr(const PrimExpr&)>& input, const PrimExpr& part,
                         const PrimExpr& weight)>
      term;
  /// One dimension of the products of a tile as outputs.
  std::function<std::vector<PrimExpr>(int64_t side, const std::vector<PrimExpr>&)> outputs;
  /// Output (y, x) of a tile from what both transforms give; y and x are unrolled.
  std::function<PrimExpr(const PrimExpr& value, const PrimExpr& y, const PrimExpr& x)> finish;
};

/// values[index] for a variable that schedules unroll.
PrimExpr ChooseUnrolled(const PrimExpr& index, const std::vector<PrimExpr>& values);

/// data: (N, IC/ib, H, W, ib), kernel: (side, side, OC/ob, IC/groups/ib, parts of ib, ob), transformed; blocks belong
/// to one group. Result: (N, OC/ob, OH, OW, ob). `problem`: sizes as kernel conv2d.winograd plans for them, see
/// WinogradLoopsProblem.
Array<te::Tensor> WinogradSums(const Conv2DAttrs* attrs, const te::Tensor& data, const te::Tensor& kernel,
                               const TensorTypeNode* type, const Problem& problem, const WinogradElements& elements);

/// The sizes of that computation; input channels are the parts that are multiplied at a time.
Problem WinogradLoopsProblem(const Conv2DAttrs* attrs, const te::Tensor& data, const te::Tensor& kernel,
                             const TensorTypeNode* type);

/// Why the method has no form for the window of a convolution, of several groups where it has forms `of_groups`; ""
/// where it has.
std::string WhyNotWinogradWindow(const ConvProblemNode& p, bool of_groups = false);

/// The type of the result, of `sum`, where the transformed weight fits data of which `per_part` channels make a part.
Type WinogradType(const InferContext& context, int64_t per_part, DataType sum);
/// Multiply-adds of the convolution itself.
double WinogradMacs(const Attrs& attrs, const Array<Type>& arguments, const Type& result);
/// Those that the method executes for each of them, by the sides of the tiles.
double WinogradMacShare(const Array<Type>& arguments);

}  // namespace treadle::ops::cpu
