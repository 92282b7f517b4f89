// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/unit_panels.h"

#include <bit>

#include "ops/loops.h"
#include "ops/te_util.h"

namespace treadle::ops::cpu {

using tir::Stmt;

Stmt ForLanes(const std::function<Stmt(const PrimExpr& lane)>& body, int64_t count, int64_t least_vector) {
  const tir::Var lane("lane", DataType::Int(64));
  const bool is_vector = count >= least_vector && std::has_single_bit(static_cast<uint64_t>(count));
  const tir::ForKind kind = is_vector ? tir::ForKind::kVectorized : tir::ForKind::kSerial;
  return tir::For(lane, Index(0), Index(count), kind, body(lane));
}

Stmt ForPanels(int64_t units, const std::function<Stmt(const PrimExpr& panel, int64_t count)>& body, bool parallel) {
  const int64_t whole = units / kPackedColumns, rest = units % kPackedColumns;
  std::vector<Stmt> parts;
  const auto whole_panel = [&](const Array<PrimExpr>& index) { return body(index[0], kPackedColumns); };
  if (whole > 0) parts.push_back(LoopNest({Index(whole)}, "panel", whole_panel, parallel));
  if (rest > 0) parts.push_back(body(Index(whole), rest));
  return InOrder(parts);
}

}  // namespace treadle::ops::cpu
