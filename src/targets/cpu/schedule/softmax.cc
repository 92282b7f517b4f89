// SPDX-License-Identifier: Apache-2.0
// Softmax along contiguous memory: maximum, exponentials, sum and quotients of a row while it's in the first-level
// cache.
#include <algorithm>

#include "targets/cpu/schedule/cpu.h"
#include "targets/cpu/schedule/rows.h"

namespace treadle::ops::cpu {
namespace {

constexpr int64_t kLanes = 16;

/// The computations of one softmax; blocks are null where it isn't one that is scheduled here.
struct Softmax {
  BlockRV max, exp, sum, of_sum, output;
};

Softmax PartsOf(Schedule& sch, const BlockRV& output) {
  Softmax parts;
  parts.output = output;
  for (const BlockRV& producer : sch.GetProducers(output)) {
    if (TagOf(sch, producer).text == te::tag::kSoftmaxOfSum) parts.of_sum = producer;
  }
  if (!parts.of_sum.defined()) return parts;
  for (const BlockRV& producer : sch.GetProducers(parts.of_sum)) {
    if (!IsReduction(sch, producer)) continue;
    for (const BlockRV& source : sch.GetProducers(producer)) {
      if (TagOf(sch, source).text != te::tag::kSoftmaxExp) continue;
      parts.sum = producer;
      parts.exp = source;
    }
  }
  if (!parts.exp.defined()) return parts;
  for (const BlockRV& producer : sch.GetProducers(parts.exp)) {
    if (IsReduction(sch, producer)) parts.max = producer;
  }
  return parts;
}

/// Whether the rows are contiguous, and long enough for vectors or of a length that only a run knows.
bool HasLongRows(Schedule& sch, const Softmax& parts) {
  if (!parts.max.defined() || !parts.sum.defined()) return false;
  for (const BlockRV& reduction : {parts.max, parts.sum}) {
    const int axis = ContiguousAxis(sch, reduction);
    tir::Block node = sch.Get(reduction);
    if (axis < 0 || node->iter_vars[static_cast<size_t>(axis)]->iter_type != tir::IterVarType::kCommReduce)
      return false;
  }
  for (const BlockRV& block : {parts.exp, parts.output}) {
    const std::vector<LoopRV> loops = sch.GetLoops(block);
    if (loops.size() < 2) return false;
    const int64_t extent = Extent(sch, loops.back());
    if (extent >= 0 && extent < 2 * kLanes) return false;
  }
  return true;
}

/// Whole vectors and, where they don't divide the row, what is left.
void VectorizeRow(Schedule& sch, const LoopRV& row) { sch.Vectorize(sch.Split(row, {kRest, PrimExpr(kLanes)})[1]); }

/// A reduction of the row: into the lanes of vectors, then of those.
void ReduceRow(Schedule& sch, const BlockRV& reduction, const LoopRV& at, std::set<std::string>* done) {
  const Partials partials = PartialsOf(sch, reduction);
  sch.ComputeAt(reduction, at);
  sch.SetScope(reduction, 0, "local");
  ComputePartialsAt(sch, partials, at, done);
  done->insert(reduction->name);
}

}  // namespace

bool ScheduleSoftmax(Schedule& sch, const BlockRV& output, std::set<std::string>* done) {
  if (TagOf(sch, output).text != te::tag::kSoftmaxOutput) return false;
  Softmax parts = PartsOf(sch, output);
  if (!HasLongRows(sch, parts)) return false;
  const double work = Work(sch, parts.exp) * ElementCost(sch, parts.exp);
  BlockRV last = output;
  if (const BlockRV epilogue = EpilogueOf(sch, output); epilogue.defined() && IsFlatElementwise(sch, epilogue)) {
    sch.ComputeInline(output);
    last = epilogue;
  }
  std::vector<LoopRV> rows = sch.GetLoops(last);
  const LoopRV row = rows.back();
  rows.pop_back();
  const LoopRV at = rows.back();
  VectorizeRow(sch, row);
  sch.ComputeAt(parts.of_sum, at);
  sch.SetScope(parts.of_sum, 0, "local");
  ReduceRow(sch, parts.sum, at, done);
  sch.ComputeAt(parts.exp, at);
  VectorizeRow(sch, LoopsUnder(sch, parts.exp, at).back());
  ReduceRow(sch, parts.max, at, done);
  // At last: what is computed within a fused loop of dynamic extents would be tested for being a row.
  FuseParallel(sch, rows, work);
  for (const BlockRV& block : {parts.exp, parts.of_sum, last}) done->insert(block->name);
  return true;
}

}  // namespace treadle::ops::cpu
