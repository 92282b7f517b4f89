// SPDX-License-Identifier: Apache-2.0
#include "cli/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace treadle::cli {

TimeSummary Summarise(std::vector<double> seconds) {
  TimeSummary result;
  if (seconds.empty()) return result;
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double part) {
    return seconds[static_cast<size_t>(part * static_cast<double>(seconds.size() - 1) + 0.5)];
  };
  result.runs = seconds.size();
  result.min = seconds.front();
  result.max = seconds.back();
  result.p25 = at(0.25);
  result.median = at(0.5);
  result.p75 = at(0.75);
  result.p90 = at(0.9);
  result.p99 = at(0.99);
  result.mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  return result;
}

std::string ToText(const TimeSummary& summary) {
  if (summary.runs == 1) return fmt::format("time {:.3f} ms", summary.median * 1e3);
  return fmt::format(
      "time {:.3f} ms, median of {} runs (quartiles {:.3f} to {:.3f}, min {:.3f}, 99 % {:.3f}, max {:.3f})",
      summary.median * 1e3, summary.runs, summary.p25 * 1e3, summary.p75 * 1e3, summary.min * 1e3, summary.p99 * 1e3,
      summary.max * 1e3);
}

Json ToJson(const TimeSummary& summary) {
  return {{"runs", summary.runs},        {"median_ms", summary.median * 1e3}, {"min_ms", summary.min * 1e3},
          {"p25_ms", summary.p25 * 1e3}, {"p75_ms", summary.p75 * 1e3},       {"p90_ms", summary.p90 * 1e3},
          {"p99_ms", summary.p99 * 1e3}, {"max_ms", summary.max * 1e3},       {"mean_ms", summary.mean * 1e3}};
}

}  // namespace treadle::cli
