// SPDX-License-Identifier: Apache-2.0
// A binary heap in statements of te::Extern.
#pragma once

#include <functional>

#include "ops/loops.h"

namespace treadle::ops {

/// Elements at places 0 .. size - 1 of a buffer, the root at 0.
struct Heap {
  std::function<PrimExpr(const PrimExpr& place)> element;
  std::function<tir::Stmt(const PrimExpr& value, const PrimExpr& place)> set;
  /// Whether element a belongs above element b.
  std::function<PrimExpr(const PrimExpr& a, const PrimExpr& b)> above;
  tir::Buffer cursor;         ///< the place of the element that sinks, of the type of places
  Array<PrimExpr> cursor_at;  ///< where in `cursor`

  /// The element at `start` sinks to its place in a heap of `size` elements.
  tir::Stmt Sink(const PrimExpr& start, const PrimExpr& size) const;
  /// The first `size` elements become a heap.
  tir::Stmt Build(const PrimExpr& size) const;
};

}  // namespace treadle::ops
