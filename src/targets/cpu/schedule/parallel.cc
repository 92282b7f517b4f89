// SPDX-License-Identifier: Apache-2.0
// Vectors and threads: how loops are divided among them.
#include <algorithm>

#include "targets/cpu/schedule/cpu.h"

namespace treadle::ops::cpu {

int VectorLanes(int64_t extent) {
  for (int lanes : {16, 8, 4}) {
    if (extent > 0 && extent % lanes == 0) return lanes;
  }
  return 0;
}

LoopRV FuseParallel(Schedule& sch, const std::vector<LoopRV>& loops, double work) {
  LoopRV fused = loops.size() == 1 ? loops[0] : sch.Fuse(loops);
  if (work >= kParallelWork && Extent(sch, fused) != 1) sch.Parallel(fused);
  return fused;
}

double LoadImbalance(int64_t outer, double last, int64_t inner, int64_t batch, int64_t threads) {
  // As the thread pool divides them: tasks of consecutive parts, four to a thread; idle threads steal.
  constexpr int64_t kTasksPerThread = 4;
  constexpr int64_t kManyParts = 1 << 20;  // of which one more or less makes no difference
  int64_t parts = 0;
  if (__builtin_mul_overflow(outer, inner, &parts) || __builtin_mul_overflow(parts, batch, &parts)) return 1;
  if (threads <= 1 || parts <= 0 || parts > kManyParts * threads) return 1;
  const int64_t tasks = std::min(parts, kTasksPerThread * threads);
  std::vector<double> times;
  double all = 0;
  for (int64_t task = 0; task < tasks; ++task) {
    double time = 0;
    for (int64_t part = task * parts / tasks; part < (task + 1) * parts / tasks; ++part) {
      time += part / inner % outer == outer - 1 ? last : 1;
    }
    times.push_back(time);
    all += time;
  }
  auto count = static_cast<size_t>(threads);
  std::vector<double> busy(count, 0);
  std::vector<size_t> next, end;
  for (size_t t = 0; t < count; ++t) {
    next.push_back(t * times.size() / count);
    end.push_back((t + 1) * times.size() / count);
  }
  for (size_t done = 0; done < times.size(); ++done) {
    const auto thread = static_cast<size_t>(std::min_element(busy.begin(), busy.end()) - busy.begin());
    size_t from = thread;
    for (size_t i = 0; i < count && next[from] == end[from]; ++i) from = (thread + i) % count;
    busy[thread] += times[next[from]++];
  }
  return *std::max_element(busy.begin(), busy.end()) * static_cast<double>(threads) / all;
}

}  // namespace treadle::ops::cpu
