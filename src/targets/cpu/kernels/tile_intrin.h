// SPDX-License-Identifier: Apache-2.0
// What kernels on AMX tile registers (treadle/tir/tile_ops.h) share: the intrinsic that computes a product of tensors.
#pragma once

#include <vector>

#include "treadle/schedule/machine.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/tensor_intrin.h"
#include "treadle/tir/tile_ops.h"

namespace treadle::ops::cpu {

/// A product whose sums `c` (rows, panels * 16) or (panels, rows, 16) are computed of `a`, in numbers or words, and `b`
/// (panels, .., 16 columns), words in the order in which they are met.
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
  te::Var present{ObjectPtr<Object>()};  ///< rows of `a` that are there (tir::TileProduct); null: all
  /// Words of k, and columns of `c`, of which only a run shows how many; null: there are as many as stated.
  te::Var dynamic_words{ObjectPtr<Object>()}, dynamic_columns{ObjectPtr<Object>()};
};
tir::TensorIntrin TileIntrin(const TileTensors& tensors);

/// `dot` of a row that is there, else 0: what products of rows that may be missing sum.
inline PrimExpr WhereRow(const PrimExpr& is_there, const PrimExpr& dot) {
  return tir::if_then_else(is_there, dot, tir::make_zero(dot.dtype()));
}

/// Of a product of matrices of `dtype`: `rows` of the left operand (of `type`: its numbers, or words of them) by
/// `panels`. `bounded`: further rows than the left one has count as zeros, and nothing uses what becomes of them. Words
/// of -1, panels of -1: as many as a run shows, a multiple of 16, and of two.
tir::TensorIntrin TileProductIntrin(DataType dtype, DataType type, int64_t rows, int64_t panels, int64_t words,
                                    bool bounded = false);
/// The same of a left operand in lines of 16 words, (lines, rows, 16) int32, and of a right one (panels, lines, 16,
/// 16): rows of a tile that lie far apart may share few sets of the L1 cache.
tir::TensorIntrin TileLinesIntrin(DataType dtype, int64_t rows, int64_t panels, int64_t lines);

/// What a call computes: `rows` by panels, over `outer` times `inner` runs of 16 words of k (treadle/tir/tile_ops.h).
struct TileCall {
  int64_t rows, panels, outer, inner;
  double left_bytes;  ///< of the left operand, which is smaller than what is read where windows overlap
};

/// Cycles of a call, with setting up the registers, for operands in the L2 cache.
double TileCycles(const TileCall& call, DataType dtype, const schedule::Machine& machine);

/// Of a convolution's groups, of so many input and output channels of `bytes` each, the number that become one: with
/// the fewest products of tiles for lines of 64 bytes and panels of 16 outputs, zeros included. 0 where almost all
/// products would be of zeros, and where pieces of 8 channels would belong to different groups.
int64_t GroupsOfTiles(int64_t groups, int64_t inputs, int64_t outputs, int64_t bytes);

}  // namespace treadle::ops::cpu
