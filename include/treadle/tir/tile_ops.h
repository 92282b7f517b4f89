// SPDX-License-Identifier: Apache-2.0
// Matrix products of tiles: what machines with tile registers (AMX) do in a few instructions. Operands are words
// (int32) of four bytes (treadle/tir/byte_ops.h) or of two bfloat16 (treadle/tir/pair_ops.h) along k; the right one is
// packed in panels of 16 columns, (panels, words, 16), as products of vectors want it.
#pragma once

#include <optional>
#include <vector>

#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt.h"

namespace treadle::tir {

/// Rows, and words of k, that a tile register holds; columns of a panel.
inline constexpr int64_t kTileRows = 16;

/// c (rows, panels * 16) = a (rows, words) times b (panels, words, 16). c is int32 of bytes, uint8 by int8, or float32
/// of bfloat16; a has its numbers, or words of them; b words. Of each operand the first element, the one a row (of b: a
/// panel) later, whose places may be far apart, and the last one; of c also the one a panel later.
///
/// The words of k may lie in several places of a (windows of convolutions): `steps` are loops around runs of `words`,
/// the outermost first. Those of b lie one after the other in the order of the loops.
struct TileProduct {
  struct Operand {
    BufferLoad first, next, last;
  };
  struct Step {
    int64_t extent;
    BufferLoad next;  ///< of a: the first word of the loop's second iteration; where it has one, of the first
  };
  Operand c;
  BufferLoad c_panel;
  Operand a, b;
  int64_t rows = kTileRows;
  int64_t panels = 1;
  int64_t words = kTileRows;  ///< of a run; a multiple of kTileRows
  std::vector<Step> steps;
  /// Words where only a run shows how many, a multiple of kTileRows or none; then there are no steps. Null: `words`.
  PrimExpr dynamic_words{ObjectPtr<Object>()};
  /// Panels where only a run shows how many, a multiple of two or none. Null: `panels`.
  PrimExpr dynamic_panels{ObjectPtr<Object>()};
  /// Rows of a that are there; further ones aren't read, their sums are undefined. Null: all are there.
  PrimExpr present{ObjectPtr<Object>()};

  /// Runs of words.
  int64_t Runs() const;
};

/// Parts into which code divides the runs of 16 words of a product of `rows`, `outer` times `inner` of them, so that
/// the right operand's stay in the L1 cache while all rows use them. The sums of a part are added to those before.
int64_t TileParts(int64_t rows, int64_t outer, int64_t inner);

/// Slices of the runs of `rows` by `panels`, of which all panels use one before the next, so that the left operand's
/// stay in the L2 cache (2 MiB of all CPUs with tiles). 1 where few panels use them.
int64_t TileSlices(int64_t rows, int64_t panels, int64_t runs);

/// The call that computes it: tir.tile_dot_bytes or tir.tile_dot_pairs, by the type of c.
PrimExpr tile_product(const TileProduct& product);
/// Whether it is one of those calls.
bool IsTileProduct(const CallNode* call);
/// What a call states; nothing of other calls.
std::optional<TileProduct> TileProductOf(const CallNode* call);
/// The elements from one row (or panel) to the next, of operands whose buffers have one dimension.
PrimExpr TileStride(const TileProduct::Operand& operand);
/// The elements of c from one panel to the next.
PrimExpr TilePanelStride(const TileProduct& product);
/// The elements of a from one iteration of a step to the next.
PrimExpr TileStride(const TileProduct& product, const TileProduct::Step& step);

/// The same in loops and arithmetic that every target has. Buffers must have one dimension.
Stmt ExpandTileProduct(const TileProduct& product);

}  // namespace treadle::tir
