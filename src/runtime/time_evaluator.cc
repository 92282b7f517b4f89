// SPDX-License-Identifier: Apache-2.0
#include "runtime/time_evaluator.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "treadle/base/error.h"

namespace treadle::runtime {

std::vector<double> TimeRuns(const std::function<void()>& run, int number, int repeat, int min_repeat_ms) {
  using Clock = std::chrono::steady_clock;
  if (number < 1 || repeat < 1 || min_repeat_ms < 0) {
    throw Error(StrCat("timing needs number >= 1, repeat >= 1 and min_repeat_ms >= 0, got ", number, ", ", repeat,
                       " and ", min_repeat_ms));
  }
  run();
  std::vector<double> results;
  for (int r = 0; r < repeat; ++r) {
    for (;;) {
      auto start = Clock::now();
      for (int i = 0; i < number; ++i) run();
      double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      if (seconds * 1e3 >= min_repeat_ms || number >= 1 << 28) {
        results.push_back(seconds / number);
        break;
      }
      double per_run = std::max(seconds / number, 1e-9);
      double wanted = std::ceil(min_repeat_ms * 1e-3 / per_run);
      number = static_cast<int>(std::clamp(wanted, number * 1.618, double{1 << 28})) + 1;
    }
  }
  return results;
}

TimedPair LeastOf(const std::vector<TimedPair>& parts) {
  if (parts.empty()) throw Error("the least of no pairs was asked for");
  const auto calm = static_cast<size_t>(
      std::count_if(parts.begin(), parts.end(), [](const TimedPair& part) { return !part.disturbed; }));
  const size_t enough = std::max((parts.size() + 1) / 2, std::min<size_t>(2, parts.size()));
  TimedPair least{HUGE_VAL, HUGE_VAL, calm < enough};
  for (const TimedPair& part : parts) {
    if (part.disturbed && !least.disturbed) continue;
    least.a = std::min(least.a, part.a);
    least.b = std::min(least.b, part.b);
  }
  return least;
}

double SpreadOf(const std::vector<TimedPair>& parts) {
  if (parts.empty()) throw Error("the spread of no pairs was asked for");
  auto spread = [&](double TimedPair::* side) {
    std::vector<double> times;
    for (const TimedPair& part : parts) times.push_back(part.*side);
    std::sort(times.begin(), times.end());
    return times.front() > 0 ? times[times.size() / 2] / times.front() : HUGE_VAL;
  };
  return std::max(spread(&TimedPair::a), spread(&TimedPair::b));
}

}  // namespace treadle::runtime
