// SPDX-License-Identifier: Apache-2.0
// Writing statements for te::Extern.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "treadle/ir/prim_ops.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/stmt.h"

namespace treadle::ops {

using LoopBody = std::function<tir::Stmt(const Array<PrimExpr>& index)>;

/// Loops over all of `extents`, the first outermost; it runs in parallel where so asked.
tir::Stmt LoopNest(const Array<PrimExpr>& extents, const std::string& prefix, const LoopBody& body,
                   bool parallel = false);
/// One serial loop from 0 on.
tir::Stmt Loop(const PrimExpr& extent, const std::string& name, const std::function<tir::Stmt(PrimExpr)>& body);
/// The value computed once.
tir::Stmt LetIn(const std::string& name, const PrimExpr& value, const std::function<tir::Stmt(PrimExpr)>& body);
inline PrimExpr Load(const tir::Buffer& buffer, const Array<PrimExpr>& index) { return tir::BufferLoad(buffer, index); }
inline tir::Stmt Store(const tir::Buffer& buffer, const PrimExpr& value, const Array<PrimExpr>& index) {
  return tir::BufferStore(buffer, value, index);
}
/// One after the other.
inline tir::Stmt InOrder(const std::vector<tir::Stmt>& stmts) {
  return tir::SeqStmt(Array<tir::Stmt>(stmts.begin(), stmts.end()));
}

}  // namespace treadle::ops
