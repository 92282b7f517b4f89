// SPDX-License-Identifier: Apache-2.0
// Attributes that convolutions and poolings share: kernel, strides, dilations and padding of a sliding window.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/onnx/node_import.h"

namespace treadle::onnx {

struct Window {
  size_t spatial = 0;  ///< number of spatial dimensions (1 to 3)
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pads;  ///< all begins, then all ends

  int64_t Extent(size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
};

/// Reads kernel_shape, strides, dilations, auto_pad and pads of a node whose operand 0 is [N, C, spatial...].
/// `kernel` is what the weights say (empty: the attribute has to be there). With `transposed` auto_pad is left to the
/// caller, `pads` being 0.
Window ReadWindow(NodeImport& n, const std::vector<int64_t>& kernel, bool transposed = false);

/// Size of the output along spatial dimension `i` for an input of `size`; with `ceil` the last window may be partial,
/// but has to begin inside the operand or its padding at the beginning.
int64_t OutputSize(const Window& w, size_t i, int64_t size, bool ceil);

}  // namespace treadle::onnx
