// SPDX-License-Identifier: Apache-2.0
// Attributes that convolutions and poolings share: kernel, strides, dilations and padding of a sliding window.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontend/onnx/compose.h"
#include "frontend/onnx/node_import.h"

namespace treadle::onnx {

struct Window {
  size_t spatial = 0;  ///< number of spatial dimensions (1 to 3)
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pads;  ///< all begins, then all ends

  /// Dimensions whose padding, of auto_pad SAME, follows from a size that only a run knows: 0 in `pads`, added by
  /// PadAtRunTime.
  std::vector<size_t> run_time;
  bool upper = false;  ///< more is added at their ends than at their begins

  int64_t Extent(size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
};

/// The attribute `name`, which has `count` entries, none below `least`; left out or empty it is `least` everywhere.
std::vector<int64_t> WindowSizes(NodeImport& n, const char* name, size_t count, int64_t least);

/// Reads kernel_shape, strides, dilations, auto_pad and pads of a node whose operand 0 is [N, C, spatial...].
/// `kernel` is what the weights say (empty: the attribute has to be there). With `transposed` auto_pad is left to the
/// caller, `pads` being 0.
Window ReadWindow(NodeImport& n, const std::vector<int64_t>& kernel, bool transposed = false);

/// Operand `i`, whose channels are as many as the weights want, `wanted` in words. Kernels that depend on them may be
/// used where the model doesn't tell how many there are (those of a reshape to a computed shape).
relay::Expr OperandWithChannels(NodeImport& n, size_t i, int64_t channels, const std::string& wanted);

/// What is added to spatial dimension `i` of `x`, which `run_time` lists, at its begin and at its end.
std::vector<Term> RunTimePadding(const Window& w, const Term& x, size_t i);
/// The operand with what `run_time` lists added, each element `value`; the operand itself where that is nothing.
relay::Expr PadAtRunTime(NodeImport& n, const Window& w, const relay::Expr& x, double value);
/// Refuses windows whose padding only a run knows.
void RequireKnownPadding(NodeImport& n, const Window& w);

/// Size of the output along spatial dimension `i` for an input of `size`; with `ceil` the last window may be partial,
/// but has to begin inside the operand or its padding at the beginning.
int64_t OutputSize(const Window& w, size_t i, int64_t size, bool ceil);

}  // namespace treadle::onnx
