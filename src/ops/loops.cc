// SPDX-License-Identifier: Apache-2.0
#include "ops/loops.h"

namespace treadle::ops {

tir::Stmt LoopNest(const Array<PrimExpr>& extents, const std::string& prefix, const LoopBody& body, bool parallel) {
  Array<PrimExpr> index;
  std::vector<tir::Var> vars;
  for (const PrimExpr& extent : extents) {
    vars.emplace_back(StrCat(prefix, vars.size()), extent.dtype());
    index.push_back(vars.back());
  }
  tir::Stmt stmt = body(index);
  for (size_t i = extents.size(); i > 0; --i) {
    tir::ForKind kind = i == 1 && parallel ? tir::ForKind::kParallel : tir::ForKind::kSerial;
    stmt = tir::For(vars[i - 1], tir::make_zero(extents[i - 1].dtype()), extents[i - 1], kind, stmt);
  }
  return stmt;
}

tir::Stmt Loop(const PrimExpr& extent, const std::string& name, const std::function<tir::Stmt(PrimExpr)>& body) {
  tir::Var var(name, extent.dtype());
  return tir::For(var, tir::make_zero(extent.dtype()), extent, tir::ForKind::kSerial, body(var));
}

tir::Stmt LetIn(const std::string& name, const PrimExpr& value, const std::function<tir::Stmt(PrimExpr)>& body) {
  tir::Var var(name, value.dtype());
  return tir::LetStmt(var, value, body(var));
}

}  // namespace treadle::ops
