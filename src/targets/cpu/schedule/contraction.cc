// SPDX-License-Identifier: Apache-2.0
// Sums of products that no kernel is for: convolutions in any layout, products with other axes than a matrix product's.
// Neighbouring results fill a vector; along an axis of results whose vectors are the same for all, several are summed
// in registers at once.
#include <algorithm>
#include <optional>

#include "targets/cpu/schedule/cpu.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::ops::cpu {
namespace {

/// What a load's address moves by, in elements, from one iteration of an axis of the block to the next; nothing where
/// that isn't constant.
std::optional<int64_t> StrideAlong(const tir::Block& node, const tir::BufferLoadNode* load, const tir::Var& axis) {
  arith::Analyzer analyzer;
  for (const tir::IterVar& v : node->iter_vars) {
    const int64_t* extent = AsConstInt(v->dom->extent);
    // There is none after the last.
    const bool moves = v->var.same_as(axis);
    if (extent != nullptr && *extent > 1) {
      analyzer.Bind(v->var, tir::Range::FromMinExtent(v->dom->min, v->dom->extent - PrimExpr(int64_t{moves ? 1 : 0})));
    }
  }
  int64_t stride = 0, elements = 1;
  Map<tir::Var, PrimExpr> next;
  next.Set(axis, axis + tir::make_const(axis.dtype(), 1));
  for (size_t d = load->indices.size(); d-- > 0;) {
    const PrimExpr step = analyzer.Simplify(tir::Substitute(load->indices[d], next) - load->indices[d]);
    const int64_t* value = AsConstInt(step);
    const int64_t* extent = AsConstInt(load->buffer->shape[d]);
    if (value == nullptr || extent == nullptr) return std::nullopt;
    stride += *value * elements;
    elements *= *extent;
  }
  return stride;
}

/// A sum's axes as they are used.
struct Roles {
  int vector = -1, rows = -1;  ///< rows: -1: there is none
  int lanes = 0;
  RegisterTile tile{1, 1};
};

std::vector<const tir::BufferLoadNode*> LoadsOf(const tir::Block& node) {
  std::vector<const tir::BufferLoadNode*> loads;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* load = e.as<tir::BufferLoadNode>();
    if (load != nullptr && !load->buffer.same_as(node->writes[0]->buffer)) loads.push_back(load);
  });
  return loads;
}

int64_t ExtentOf(const tir::Block& node, size_t axis) {
  const int64_t* extent = AsConstInt(node->iter_vars[axis]->dom->extent);
  return extent == nullptr ? -1 : *extent;
}

/// The innermost of the first `count` axes along which none of the loads moves; -1 where there is none.
int InnermostAxisOf(const tir::Block& node, size_t count, const std::vector<const tir::BufferLoadNode*>& loads) {
  for (size_t i = count; i-- > 0;) {
    const bool same = std::all_of(loads.begin(), loads.end(), [&](const tir::BufferLoadNode* load) {
      return StrideAlong(node, load, node->iter_vars[i]->var) == 0;
    });
    if (same && ExtentOf(node, i) > 1) return static_cast<int>(i);
  }
  return -1;
}

std::optional<Roles> FindRoles(const tir::Block& node, size_t spatial, const schedule::Machine& machine) {
  constexpr int64_t kWidestStride = 4;
  Roles roles;
  roles.vector = static_cast<int>(spatial) - 1;
  const std::vector<const tir::BufferLoadNode*> loads = LoadsOf(node);
  std::vector<const tir::BufferLoadNode*> vectors, shared;
  for (const tir::BufferLoadNode* load : loads) {
    const auto stride = StrideAlong(node, load, node->iter_vars[spatial - 1]->var);
    if (!stride || *stride < 0 || *stride > kWidestStride) return std::nullopt;
    if (*stride > 0) vectors.push_back(load);
    if (*stride == 0 && !load->indices.empty()) shared.push_back(load);
  }
  if (vectors.empty() || shared.empty()) return std::nullopt;
  roles.rows = InnermostAxisOf(node, spatial - 1, vectors);
  const int bits = node->writes[0]->buffer->dtype.bits();
  const int64_t width = ExtentOf(node, spatial - 1);
  const int widest = std::max(1, machine.vector_bits / bits);
  roles.lanes = widest;
  while (roles.lanes > width) roles.lanes /= 2;
  if (roles.lanes < 2) return std::nullopt;
  const int64_t blocks = width % roles.lanes == 0 ? width / roles.lanes : 1;
  constexpr int kFloatBits = 32;
  // Windows over each channel by itself: neighbouring rows have the same weights, and sums that don't wait for others.
  const int apart = roles.rows >= 0 || blocks > 1 ? -1 : InnermostAxisOf(node, spatial - 1, shared);
  if (apart >= 0) {
    roles.rows = apart;
    for (const int64_t width : {6, 5, 4, 3, 2}) {
      if (roles.tile.width == 1 && ExtentOf(node, static_cast<size_t>(apart)) % width == 0) roles.tile.width = width;
    }
  } else if (roles.rows >= 0) {
    roles.tile = ChooseTile(ExtentOf(node, static_cast<size_t>(roles.rows)), int64_t{roles.lanes} * bits / kFloatBits,
                            blocks, machine);
  } else {
    for (int64_t b : {4, 3, 2}) {
      if (roles.tile.blocks == 1 && blocks % b == 0) roles.tile.blocks = b;
    }
  }
  return roles;
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

}  // namespace

bool ScheduleContraction(Schedule& sch, const BlockRV& block, const BlockRV& epilogue,
                         const schedule::Machine& machine) {
  constexpr int64_t kEnoughParts = 16;
  const tir::Block node = sch.Get(block);
  if (node->writes.size() != 1 || node->body.as<tir::BufferStoreNode>() == nullptr) return false;
  size_t spatial = 0;
  for (const tir::IterVar& v : node->iter_vars) spatial += v->iter_type == tir::IterVarType::kDataPar;
  if (spatial == 0 || sch.GetLoops(block).size() != node->iter_vars.size()) return false;
  for (size_t i = 0; i < node->iter_vars.size(); ++i) {
    if (ExtentOf(node, i) < 1) return false;
    if ((i < spatial) != (node->iter_vars[i]->iter_type == tir::IterVarType::kDataPar)) return false;
  }
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
    parts *= Extent(sch, loops[i]);
  }
  // The last vector of a row that isn't whole is cut off where a loop of its own counts the row's vectors.
  const bool tail = ExtentOf(node, spatial - 1) % (roles->lanes * roles->tile.blocks) != 0;
  if (!tail) {
    outer.push_back(columns[0]);
    parts *= Extent(sch, columns[0]);
  }
  std::vector<LoopRV> order = outer;
  const bool divides_rows = !rows.empty() && parts < kEnoughParts;
  if (divides_rows) outer.push_back(rows[0]);
  if (tail && divides_rows) order.push_back(rows[0]);
  if (tail) order.push_back(columns[0]);
  if (!rows.empty() && !(tail && divides_rows)) order.push_back(rows[0]);
  const LoopRV tile = order.back();
  if (!rows.empty()) order.push_back(rows[1]);
  order.insert(order.end(), {columns[1], columns[2]});
  sch.Reorder(order);
  std::vector<int> unrolled;
  if (roles->rows >= 0) unrolled.push_back(roles->rows);
  ComputeTile(sch, block, tile, unrolled, roles->vector, roles->tile.blocks);
  sch.Vectorize(columns[2]);
  sch.Unroll(columns[1]);
  if (!rows.empty()) sch.Unroll(rows[1]);
  if (!outer.empty()) FuseParallel(sch, outer, work);
  return true;
}

}  // namespace treadle::ops::cpu
