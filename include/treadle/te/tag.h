// SPDX-License-Identifier: Apache-2.0
// What a tensor computation does with its operands, as far as default schedules ask. Computations carry it as text,
// OperationNode::tag, in TVM's spelling; primitive functions hand it on as annotation "tag" of blocks.
#pragma once

#include <string>
#include <string_view>

namespace treadle::te {

/// The spellings that computations of graph operators have.
namespace tag {
inline constexpr const char* kElemWise = "elemwise";
inline constexpr const char* kBroadcast = "broadcast";
inline constexpr const char* kInjective = "injective";
inline constexpr const char* kPad = "injective,pad";
inline constexpr const char* kConstant = "injective,constant";
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
inline constexpr const char* kSoftmaxOfSum = "softmax_of_sum";
inline constexpr const char* kSoftmaxOutput = "softmax_output";
// Convolutions: conv2d_nchw, depthwise_conv2d_nchw, group_conv2d_nhwc, conv1d_ncw, ...: kind, rank, layout in lower
// case.
}  // namespace tag

enum class ComputeKind {
  kOther,        ///< no tag, or one of the user's own
  kElementwise,  ///< reads its operands at its own index
  kBroadcast,    ///< or at that index without some dimensions
  kInjective,    ///< or at any one index that is computed from its own
  kReduction,    ///< each element reduces a part of an operand that no other element reads, or few do
  kPool,         ///< a reduction over windows
  kConv,         ///< a sum of products over windows
  kMatmul,       ///< a sum of products of rows and columns
};

/// A tag, read once: schedules compare kinds, not text.
struct Tag {
  ComputeKind kind = ComputeKind::kOther;
  bool pads = false;      ///< puts constants around its operand
  bool constant = false;  ///< reads nothing
  std::string text;       ///< as it was given

  /// Reads the words between commas. Words of several parts (depthwise_conv2d_nchw, batch_matmul, adaptive_pool_sum)
  /// have the kind of the part that names one; others are the user's, and say nothing.
  static Tag Parse(std::string_view text);
  /// Whether each element reads one element of each operand, or few.
  bool is_injective() const {
    return kind == ComputeKind::kElementwise || kind == ComputeKind::kBroadcast || kind == ComputeKind::kInjective;
  }
  /// Whether elements of operands are read by many elements.
  bool reuses_operands() const {
    return kind == ComputeKind::kPool || kind == ComputeKind::kConv || kind == ComputeKind::kMatmul;
  }
};

}  // namespace treadle::te
