// SPDX-License-Identifier: Apache-2.0
#include "ops/heap.h"

namespace treadle::ops {

tir::Stmt Heap::Sink(const PrimExpr& start, const PrimExpr& size) const {
  const PrimExpr at = Load(cursor, cursor_at);
  auto move = [&](const PrimExpr& place) { return Store(cursor, place, cursor_at); };
  tir::Stmt step = LetIn("place", at, [&](const PrimExpr& place) {
    return LetIn("left", place * 2 + 1, [&](const PrimExpr& left) {
      PrimExpr right = tir::min(left + 1, size - 1);
      return LetIn("l", element(left), [&](const PrimExpr& l) {
        return LetIn("r", element(right), [&](const PrimExpr& r) {
          return LetIn("next", tir::select(above(r, l), right, left), [&](const PrimExpr& next) {
            return LetIn("child", element(next), [&](const PrimExpr& child) {
              return LetIn("own", element(place), [&](const PrimExpr& own) -> tir::Stmt {
                tir::Stmt swap = tir::SeqStmt(Array<tir::Stmt>{set(child, place), set(own, next), move(next)});
                return tir::IfThenElse(above(child, own), swap, move(size));
              });
            });
          });
        });
      });
    });
  });
  return tir::SeqStmt(Array<tir::Stmt>{move(start), tir::While(at * 2 + 1 < size, step)});
}

tir::Stmt Heap::Build(const PrimExpr& size) const {
  const PrimExpr half = tir::floordiv(size, 2);
  return Loop(half, "i", [&](const PrimExpr& i) { return Sink(half - 1 - i, size); });
}

}  // namespace treadle::ops
