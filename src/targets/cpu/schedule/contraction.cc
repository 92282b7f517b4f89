// SPDX-License-Identifier: Apache-2.0
// Sums of products for which there is no kernel: convolutions in other layouts, einsum-like products. Neighbouring
// results fill a vector; along an axis of results that share the vector operand, several vectors are accumulated in
// registers at once.
#include <algorithm>
#include <optional>
#include <tuple>

#include "targets/cpu/schedule/block_reads.h"
#include "targets/cpu/schedule/cpu.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::ops::cpu {
namespace {

/// A sum's axes as they are used.
struct Roles {
  int vector = -1, rows = -1;  ///< rows: -1: there is none
  int lanes = 0;
  RegisterTile tile{1, 1};
  bool is_window = false;  ///< few steps for each result, which are written out
};

/// Steps of a window that is written out.
constexpr int64_t kMaxTaps = 64;

/// What each result is the sum of, or -1.
int64_t StepsOf(const tir::Block& node, size_t spatial) {
  int64_t steps = 1;
  for (size_t i = spatial; i < node->iter_vars.size(); ++i) {
    const int64_t extent = ExtentOf(node, i);
    if (extent < 0 || steps > kMaxTaps) return -1;
    steps *= extent;
  }
  return steps;
}

/// Windows over each channel by itself: neighbouring rows have the same weights, read much of the same, and are sums
/// that don't wait for others.
void ChooseWindow(const tir::Block& node, size_t spatial, const std::vector<const tir::BufferLoadNode*>& shared,
                  Roles* roles) {
  roles->is_window = true;
  roles->rows = InnermostAxisOf(node, spatial - 1, shared);
  if (roles->rows < 0) return;
  for (const int64_t width : {4, 3, 2}) {
    const bool divides = ExtentOf(node, static_cast<size_t>(roles->rows)) % width == 0;
    if (roles->tile.width == 1 && divides) roles->tile.width = width;
  }
}

std::optional<Roles> FindRoles(const tir::Block& node, size_t spatial, const schedule::Machine& machine) {
  constexpr int64_t kWidestStride = 4, kWidestInWindow = 2, kLeastInTile = 8;
  Roles roles;
  roles.vector = static_cast<int>(spatial) - 1;
  std::vector<const tir::BufferLoadNode*> vectors, shared;
  int64_t widest = 0;
  for (const tir::BufferLoadNode* load : LoadsOf(node)) {
    const auto stride = StrideAlong(node, load, node->iter_vars[spatial - 1]->var);
    if (!stride || *stride < 0 || *stride > kWidestStride) return std::nullopt;
    widest = std::max(widest, *stride);
    if (*stride > 0) vectors.push_back(load);
    if (*stride == 0 && !load->indices.empty()) shared.push_back(load);
  }
  const int64_t steps = StepsOf(node, spatial);
  const bool few_steps = steps > 0 && steps <= kMaxTaps;
  if (vectors.empty() || (shared.empty() && !few_steps)) return std::nullopt;
  const int bits = node->writes[0]->buffer->dtype.bits();
  const int64_t width = ExtentOf(node, spatial - 1);
  roles.lanes = std::max(1, machine.vector_bits / bits);
  while (width > 0 && roles.lanes > width) roles.lanes /= 2;
  if (roles.lanes < 2) return std::nullopt;
  const int64_t blocks = width > 0 && width % roles.lanes == 0 ? width / roles.lanes : 1;
  // Sums of fewer steps cost less than to store them, which is quicker along rows than in tiles.
  const bool is_tile = !shared.empty() && (steps < 0 || steps >= kLeastInTile);
  int64_t part = 0;
  if (is_tile) roles.rows = InnermostAxisOf(node, spatial - 1, vectors);
  if (is_tile && roles.rows < 0) std::tie(roles.rows, part) = InnermostAxisInParts(node, spatial - 1, vectors);
  constexpr int kFloatBits = 32;
  if (roles.rows >= 0) {
    // Where products aren't added by one instruction, they need registers.
    constexpr int kProducts = 4;
    schedule::Machine registers = machine;
    if (!node->writes[0]->buffer->dtype.is_float()) registers.vector_registers -= kProducts;
    roles.tile = ChooseTile(part > 0 ? part : ExtentOf(node, static_cast<size_t>(roles.rows)),
                            int64_t{roles.lanes} * bits / kFloatBits, blocks, registers);
    while (part > 0 && part % roles.tile.width != 0) --roles.tile.width;
  } else if (few_steps) {
    // Elements of each third or further apart are left to LLVM, which loads all and shuffles them.
    if (widest > kWidestInWindow) return std::nullopt;
    ChooseWindow(node, spatial, shared, &roles);
  } else {
    for (int64_t b : {4, 3, 2}) {
      if (roles.tile.blocks == 1 && blocks % b == 0) roles.tile.blocks = b;
    }
  }
  return roles;
}

/// Writes out the sums of a window.
void UnrollSteps(Schedule& sch, const BlockRV& block) {
  const tir::Block node = sch.Get(block);
  const std::vector<LoopRV> axes = AxisLoops(sch, block);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (node->iter_vars[i]->iter_type == tir::IterVarType::kCommReduce && axes[i].defined()) sch.Unroll(axes[i]);
  }
}

/// The dimension of a load that is the axis itself, and in no other dimension; -1 where there is none.
int DimensionOf(const tir::BufferLoadNode* load, const tir::Var& axis) {
  int found = -1;
  for (size_t d = 0; d < load->indices.size(); ++d) {
    if (load->indices[d].same_as(axis)) {
      if (found >= 0) return -1;
      found = static_cast<int>(d);
    } else if (arith::UsesVar(load->indices[d], [&](const tir::VarNode* var) { return var == axis.get(); })) {
      return -1;
    }
  }
  return found;
}

/// Operands whose neighbours along the last axis of results are far apart, and which many results share, are copied
/// with that axis innermost: right operands of products that are stored transposed.
void PackStridedOperands(Schedule& sch, const BlockRV& block, size_t spatial) {
  constexpr int64_t kLeastShared = 8, kLeastStride = 4;
  const tir::Block node = sch.Get(block);
  const tir::Var& vector = node->iter_vars[spatial - 1]->var;
  for (const tir::BufferLoadNode* load : LoadsOf(node)) {
    const int dimension = DimensionOf(load, vector), last = static_cast<int>(load->indices.size()) - 1;
    const auto stride = StrideAlong(node, load, vector);
    if (dimension < 0 || dimension == last || !stride || *stride <= kLeastStride) continue;
    int64_t shared = 1;
    for (size_t i = 0; i + 1 < spatial; ++i) {
      if (StrideAlong(node, load, node->iter_vars[i]->var) == 0) shared *= ExtentOf(node, i);
    }
    int operand = -1;
    for (size_t i = 0; i < node->reads.size(); ++i) {
      if (node->reads[i]->buffer.same_as(load->buffer)) operand = static_cast<int>(i);
    }
    if (shared < kLeastShared || operand < 0) continue;
    const BlockRV copy = sch.CacheRead(block, operand, "global");
    const DataType index = sch.Get(copy)->iter_vars[0]->var->dtype;
    std::vector<tir::Var> at;
    std::vector<PrimExpr> to;
    for (int d = 0; d <= last; ++d) {
      at.emplace_back(StrCat("i", d), index);
      if (d != dimension) to.push_back(at.back());
    }
    to.push_back(at[static_cast<size_t>(dimension)]);
    sch.TransformLayout(copy, true, 0, at, to);
    ScheduleInjective(sch, copy);
  }
}

/// Whether the block sums up products of integers that are narrower than the sum, along one axis.
bool IsNarrowProduct(const tir::Block& node, size_t spatial) {
  const auto* store = node->body.as<tir::BufferStoreNode>();
  const auto* sum = store == nullptr ? nullptr : store->value.as<tir::AddNode>();
  if (sum == nullptr || spatial + 1 != node->iter_vars.size() || ExtentOf(node, spatial) < 0) return false;
  auto is_narrow = [&](const PrimExpr& e) {
    const auto* cast = e.as<tir::CastNode>();
    const DataType from = cast == nullptr ? e.dtype() : cast->value.dtype();
    return cast != nullptr && cast->value.as<tir::BufferLoadNode>() != nullptr && (from.is_int() || from.is_uint()) &&
           from.bits() * 2 <= e.dtype().bits();
  };
  const auto is_product = [&](const PrimExpr& e) {
    const auto* product = e.as<tir::MulNode>();
    return product != nullptr && is_narrow(product->a) && is_narrow(product->b);
  };
  return is_product(sum->b) || is_product(sum->a);
}

/// Products of narrow integers, both in the order of the sum: LLVM makes instructions of it that multiply and add
/// neighbours.
bool ScheduleNarrowProduct(Schedule& sch, const BlockRV& block, const BlockRV& epilogue, size_t spatial) {
  constexpr int64_t kLeastSteps = 32, kEnoughParts = 16;
  const tir::Block node = sch.Get(block);
  if (!IsNarrowProduct(node, spatial) || ExtentOf(node, spatial) < kLeastSteps) return false;
  for (const tir::BufferLoadNode* load : LoadsOf(node)) {
    if (StrideAlong(node, load, node->iter_vars[spatial]->var) != 1) return false;
  }
  // As few loops as there have to be for threads: results of a row share what one of the operands is.
  std::vector<LoopRV> outer;
  int64_t parts = 1;
  for (const LoopRV& loop : sch.GetLoops(block)) {
    if (parts >= kEnoughParts || outer.size() == spatial) break;
    outer.push_back(loop);
    parts *= Extent(sch, loop) < 0 ? kEnoughParts : Extent(sch, loop);
  }
  FuseParallel(sch, outer, Work(sch, block));
  if (epilogue.defined()) ScheduleInjective(sch, epilogue);
  return true;
}

}  // namespace

bool ScheduleContraction(Schedule& sch, const BlockRV& block, const BlockRV& epilogue,
                         const schedule::Machine& machine) {
  constexpr int64_t kEnoughParts = 16;  // as many are taken for dynamic extents
  const tir::Block node = sch.Get(block);
  if (node->writes.size() != 1 || node->body.as<tir::BufferStoreNode>() == nullptr) return false;
  const size_t spatial = SpatialAxesOf(node);
  if (spatial == 0 || sch.GetLoops(block).size() != node->iter_vars.size()) return false;
  for (size_t i = 0; i < node->iter_vars.size(); ++i) {
    if (ExtentOf(node, i) == 0) return false;
    if ((i < spatial) != (node->iter_vars[i]->iter_type == tir::IterVarType::kDataPar)) return false;
  }
  if (ScheduleNarrowProduct(sch, block, epilogue, spatial)) return true;
  PackStridedOperands(sch, block, spatial);
  const std::optional<Roles> roles = FindRoles(sch.Get(block), spatial, machine);
  if (!roles) return false;
  const double work = Work(sch, block);
  const BlockRV out = epilogue.defined() ? epilogue : sch.CacheWrite(block, 0, "local");
  const std::vector<LoopRV> loops = sch.GetLoops(out);
  if (loops.size() != spatial) return false;
  std::vector<LoopRV> columns =
      sch.Split(loops[spatial - 1], {kRest, PrimExpr(roles->tile.blocks), PrimExpr(int64_t{roles->lanes})});
  std::vector<LoopRV> rows, outer;
  if (roles->rows >= 0) rows = sch.Split(loops[static_cast<size_t>(roles->rows)], {kRest, PrimExpr(roles->tile.width)});
  int64_t parts = 1;
  for (size_t i = 0; i + 1 < spatial; ++i) {
    if (static_cast<int>(i) == roles->rows) continue;
    outer.push_back(loops[i]);
    parts *= Extent(sch, loops[i]) < 0 ? kEnoughParts : Extent(sch, loops[i]);
  }
  // The last vector of a row that isn't whole is cut off where a loop of its own counts the row's vectors. Neighbours
  // in a row share the weights of windows.
  const int64_t width = ExtentOf(node, spatial - 1);
  const bool whole = width > 0 && width % (roles->lanes * roles->tile.blocks) == 0;
  const bool along_row = !whole || (roles->is_window && (parts >= kEnoughParts || !rows.empty()));
  if (!along_row) {
    outer.push_back(columns[0]);
    parts *= Extent(sch, columns[0]);
  }
  std::vector<LoopRV> order = outer;
  const bool divides_rows = !rows.empty() && parts < kEnoughParts;
  if (divides_rows) outer.push_back(rows[0]);
  const bool rows_first = along_row && (divides_rows || roles->is_window);
  if (rows_first && !rows.empty()) order.push_back(rows[0]);
  if (along_row) order.push_back(columns[0]);
  if (!rows_first && !rows.empty()) order.push_back(rows[0]);
  const LoopRV tile = order.back();
  if (!rows.empty()) order.push_back(rows[1]);
  order.insert(order.end(), {columns[1], columns[2]});
  sch.Reorder(order);
  std::vector<int> unrolled;
  if (roles->rows >= 0) unrolled.push_back(roles->rows);
  ComputeTile(sch, block, tile, unrolled, roles->vector, roles->tile.blocks);
  if (roles->is_window) UnrollSteps(sch, block);
  sch.Vectorize(columns[2]);
  sch.Unroll(columns[1]);
  if (!rows.empty()) sch.Unroll(rows[1]);
  if (!outer.empty()) FuseParallel(sch, outer, work);
  return true;
}

}  // namespace treadle::ops::cpu
