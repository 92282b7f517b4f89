// SPDX-License-Identifier: Apache-2.0
// What kernels on AMX tile registers (treadle/tir/tile_ops.h) share: the intrinsic that computes a product of tensors.
#pragma once

#include <vector>

#include "treadle/te/tensor.h"
#include "treadle/tir/tensor_intrin.h"
#include "treadle/tir/tile_ops.h"

namespace treadle::ops::cpu {

/// A product whose sums `c` (rows, panels * 16) are computed of `a`, in numbers or words, and `b` (panels, .., 16
/// columns), words in the order in which they are met.
struct TileTensors {
  te::Tensor a, b, c;
  std::vector<int64_t> next_row;  ///< of a: where its second row begins
  /// Of a: loops around runs of `words`, and where the second iteration begins.
  struct Step {
    int64_t extent;
    std::vector<int64_t> next;
  };
  std::vector<Step> steps;
  int64_t words;
};
tir::TensorIntrin TileIntrin(const TileTensors& tensors);

/// Of a product of matrices of `dtype`: `rows` of the left operand (of `type`: its numbers, or words of them) by
/// `panels`.
tir::TensorIntrin TileProductIntrin(DataType dtype, DataType type, int64_t rows, int64_t panels, int64_t words);

}  // namespace treadle::ops::cpu
