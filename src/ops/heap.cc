// SPDX-License-Identifier: Apache-2.0
#include "ops/heap.h"

namespace treadle::ops {
namespace {

/// The place that a cursor stands for, which may have been noted as a number below 0.
PrimExpr LastPlace(const PrimExpr& at) { return tir::select(at < 0, tir::make_const(at.dtype(), -1) - at, at); }

}  // namespace

tir::Stmt Heap::Sink(const PrimExpr& start, const PrimExpr& size) const {
  const PrimExpr at = Load(cursor, cursor_at);
  auto move = [&](const PrimExpr& place) { return Store(cursor, place, cursor_at); };
  // The element is kept aside while others rise. Where it has come to its place is noted as a number below 0.
  return LetIn("own", element(start), [&](const PrimExpr& own) -> tir::Stmt {
    tir::Stmt step = LetIn("place", at, [&](const PrimExpr& place) {
      return LetIn("left", place * 2 + 1, [&](const PrimExpr& left) {
        PrimExpr right = tir::min(left + 1, size - 1);
        return LetIn("l", element(left), [&](const PrimExpr& l) {
          return LetIn("r", element(right), [&](const PrimExpr& r) {
            return LetIn("next", tir::select(above(r, l), right, left), [&](const PrimExpr& next) {
              return LetIn("child", element(next), [&](const PrimExpr& child) -> tir::Stmt {
                tir::Stmt rise = tir::SeqStmt(Array<tir::Stmt>{set(child, place), move(next)});
                return tir::IfThenElse(above(child, own), rise, move(tir::make_const(place.dtype(), -1) - place));
              });
            });
          });
        });
      });
    });
    const PrimExpr end = LastPlace(at);
    return tir::SeqStmt(Array<tir::Stmt>{move(start), tir::While(at >= 0 && at * 2 + 1 < size, step), set(own, end)});
  });
}

tir::Stmt Heap::Build(const PrimExpr& size) const {
  const PrimExpr half = tir::floordiv(size, 2);
  return Loop(half, "i", [&](const PrimExpr& i) { return Sink(half - 1 - i, size); });
}

}  // namespace treadle::ops
