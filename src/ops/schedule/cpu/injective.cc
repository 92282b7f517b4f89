// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/schedule/cpu/cpu.h"

namespace treadle::ops::cpu {

std::vector<LoopRV> TransposeTile(Schedule& sch, const LoopRV& contiguous, const LoopRV& last) {
  // A cache line of what is read; lanes are so many lines at once, which all may fall into one set of the cache.
  constexpr int64_t kLine = 16, kLanes = 8;
  const PrimExpr rest{ObjectPtr<Object>()};
  std::vector<LoopRV> lines = sch.Split(contiguous, {rest, PrimExpr(kLine)});
  std::vector<LoopRV> lanes = sch.Split(last, {rest, PrimExpr(kLanes)});
  sch.Reorder({lines[0], lanes[0], lines[1], lanes[1]});
  sch.Vectorize(lanes[1]);
  return {lines[0], lanes[0]};
}

namespace {

/// A transposition of matrices that are large enough. Whether it was one.
bool ScheduleTransposition(Schedule& sch, const BlockRV& block, double work) {
  constexpr int64_t kLeast = 16;
  std::vector<LoopRV> loops = sch.GetLoops(block);
  const int axis = TransposedAxis(sch, block);
  if (axis < 0 || loops.size() != sch.Get(block)->iter_vars.size()) return false;
  const auto at = static_cast<size_t>(axis);
  const int64_t width = Extent(sch, loops.back());
  if (Extent(sch, loops[at]) < kLeast || width < kLeast) return false;
  if (width == kLeast && at + 2 == loops.size()) return false;  // is a tile as it is
  std::vector<LoopRV> order(loops.begin(), loops.end() - 1);
  order.erase(order.begin() + axis);
  std::vector<LoopRV> outer = order;
  order.push_back(loops[at]);
  order.push_back(loops.back());
  sch.Reorder(order);
  outer.push_back(TransposeTile(sch, loops[at], loops.back())[0]);
  FuseParallel(sch, outer, work);
  return true;
}

}  // namespace

void ScheduleInjective(Schedule& sch, const BlockRV& block) {
  std::vector<LoopRV> loops = sch.GetLoops(block);
  if (loops.empty()) return;
  double work = Work(sch, block);
  if (IsFlatElementwise(sch, block)) {
    LoopRV all = loops.size() == 1 ? loops[0] : sch.Fuse(loops);
    int64_t extent = Extent(sch, all);
    int lanes = VectorLanes(extent);
    if (lanes == 0 || extent == lanes) {
      if (lanes != 0) sch.Vectorize(all);
      return;
    }
    // Chunks of some kilobytes: the loop over vectors stays tight, the parallel loop has few iterations.
    int64_t vectors = extent / lanes, chunk = 1;
    for (int64_t c = 1; c <= 256; ++c) {
      if (vectors % c == 0) chunk = c;
    }
    std::vector<LoopRV> parts =
        sch.Split(all, {PrimExpr(ObjectPtr<Object>()), PrimExpr(chunk), PrimExpr(int64_t{lanes})});
    sch.Vectorize(parts[2]);
    if (work >= kParallelWork && vectors > chunk) sch.Parallel(parts[0]);
    return;
  }
  if (ScheduleTransposition(sch, block, work)) return;
  // The last loop becomes vectors where its extent divides; otherwise LLVM's loop vectoriser deals with the rest.
  LoopRV last = loops.back();
  int lanes = VectorLanes(Extent(sch, last));
  if (lanes != 0) {
    if (Extent(sch, last) == lanes) {
      sch.Vectorize(last);
    } else {
      sch.Vectorize(sch.Split(last, {PrimExpr(ObjectPtr<Object>()), PrimExpr(int64_t{lanes})})[1]);
    }
  }
  // The loop around stays one of its own if enough others remain: what its iterations share is computed once.
  constexpr int64_t kEnough = 16;
  std::vector<LoopRV> outer(loops.begin(), loops.end() - 1);
  int64_t others = 1;
  for (size_t i = 0; i + 1 < outer.size(); ++i) others *= std::max<int64_t>(1, Extent(sch, outer[i]));
  if (outer.size() > 1 && others >= kEnough && Extent(sch, outer.back()) > 2) outer.pop_back();
  if (!outer.empty()) FuseParallel(sch, outer, work);
}

}  // namespace treadle::ops::cpu
