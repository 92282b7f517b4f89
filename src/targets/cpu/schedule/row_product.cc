// SPDX-License-Identifier: Apache-2.0
// Products of one row with a matrix that is read once, as it lies in memory: what counts is that memory is read in long
// runs.
#include <algorithm>

#include "targets/cpu/schedule/block_reads.h"
#include "targets/cpu/schedule/cpu.h"
#include "treadle/base/int_math.h"

namespace treadle::ops::cpu {
namespace {

constexpr int64_t kLeastColumns = 16, kLeastDepth = 8;
constexpr int64_t kFewVectors = 8;  ///< of results, which stay in registers
constexpr int64_t kStretch = 64;    ///< vectors of results that stay in the L1 cache
constexpr int64_t kStreams = 8;     ///< rows of the matrix that are read side by side

/// The sum of products of one row's elements with rows of a matrix, neighbours of which are neighbouring results; no
/// part of the matrix is read for more than one row.
bool IsRowProduct(const tir::Block& node) {
  const auto* store = node->body.as<tir::BufferStoreNode>();
  const auto* sum = store == nullptr ? nullptr : store->value.as<tir::AddNode>();
  const size_t spatial = SpatialAxesOf(node);
  if (sum == nullptr || sum->b.as<tir::MulNode>() == nullptr || !sum->b.dtype().is_float()) return false;
  if (spatial < 1 || spatial + 1 != node->iter_vars.size()) return false;
  const int64_t columns = ExtentOf(node, spatial - 1), depth = ExtentOf(node, spatial);
  if ((columns >= 0 && columns < kLeastColumns) || (depth >= 0 && depth < kLeastDepth)) return false;
  std::vector<const tir::BufferLoadNode*> matrix;
  const std::vector<const tir::BufferLoadNode*> loads = LoadsOf(node);
  for (const tir::BufferLoadNode* load : loads) {
    const auto stride = StrideAlong(node, load, node->iter_vars[spatial - 1]->var);
    if (!stride || (*stride != 0 && *stride != 1)) return false;
    if (*stride == 1) matrix.push_back(load);
  }
  if (loads.size() != 2 || matrix.size() != 1) return false;
  const auto down = StrideAlong(node, matrix[0], node->iter_vars[spatial]->var);
  return down && *down != 0 && InnermostAxisOf(node, spatial - 1, matrix) < 0;
}

}  // namespace

bool ScheduleRowProduct(Schedule& sch, const BlockRV& block, BlockRV epilogue, const schedule::Machine& machine) {
  const tir::Block node = sch.Get(block);
  if (!IsRowProduct(node)) return false;
  const size_t spatial = SpatialAxesOf(node);
  const double work = Work(sch, block);
  const int64_t columns = ExtentOf(node, spatial - 1);
  const int64_t lanes = std::max<int64_t>(1, machine.vector_bits / node->writes[0]->buffer->dtype.bits());
  if (lanes < 2) return false;
  std::vector<LoopRV> outer;
  if (columns >= 0 && columns <= kFewVectors * lanes && columns % lanes == 0) {
    if (!epilogue.defined()) epilogue = sch.CacheWrite(block, 0, "local");
    std::vector<LoopRV> out = sch.GetLoops(epilogue);
    if (out.size() != spatial || spatial < 2) return false;
    ComputeTile(sch, block, out[spatial - 2], {}, static_cast<int>(spatial) - 1, columns / lanes, 2);
    const std::vector<LoopRV> vectors = sch.Split(out[spatial - 1], {kRest, PrimExpr(lanes)});
    sch.Unroll(vectors[0]);
    sch.Vectorize(vectors[1]);
    outer.assign(out.begin(), out.end() - 1);
    FuseParallel(sch, outer, work);
    return true;
  }
  const std::vector<LoopRV> loops = sch.GetLoops(block);
  if (loops.size() != spatial + 1) return false;
  const int64_t stretch = columns < 0 ? kStretch : std::min(kStretch, CeilDiv(columns, lanes));
  const std::vector<LoopRV> row = sch.Split(loops[spatial - 1], {kRest, PrimExpr(stretch), PrimExpr(lanes)});
  const std::vector<LoopRV> steps = sch.Split(loops[spatial], {kRest, PrimExpr(kStreams)});
  sch.Reorder({row[0], steps[0], row[1], steps[1], row[2]});
  const BlockRV init = sch.DecomposeReduction(block, steps[0]);
  sch.Unroll(steps[1]);
  sch.Vectorize(row[2]);
  if (const LoopRV lane = sch.GetLoops(init).back(); Extent(sch, lane) == lanes) sch.Vectorize(lane);
  outer.assign(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(spatial) - 1);
  outer.push_back(row[0]);
  FuseParallel(sch, outer, work);
  if (epilogue.defined()) ScheduleInjective(sch, epilogue);
  return true;
}

}  // namespace treadle::ops::cpu
