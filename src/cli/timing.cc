// SPDX-License-Identifier: Apache-2.0
#include "cli/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

std::string Milliseconds(double seconds, int decimals, int digits) {
  const double ms = seconds * 1e3;
  constexpr int kMostDecimals = 9;
  while (ms > 0 && decimals < kMostDecimals && ms * std::pow(10, decimals) < std::pow(10, digits - 1) - 0.5) ++decimals;
  return fmt::format("{:.{}f}", ms, decimals);
}

std::string ToText(const TimeSummary& summary) {
  const auto ms = [](double seconds) { return Milliseconds(seconds, 3, 3); };
  if (summary.runs == 1) return fmt::format("time {} ms", ms(summary.median));
  return fmt::format("time {} ms, median of {} runs (quartiles {} to {}, min {}, 99 % {}, max {})", ms(summary.median),
                     summary.runs, ms(summary.p25), ms(summary.p75), ms(summary.min), ms(summary.p99), ms(summary.max));
}

Json ToJson(const TimeSummary& summary) {
  return {{"runs", summary.runs},        {"median_ms", summary.median * 1e3}, {"min_ms", summary.min * 1e3},
          {"p25_ms", summary.p25 * 1e3}, {"p75_ms", summary.p75 * 1e3},       {"p90_ms", summary.p90 * 1e3},
          {"p99_ms", summary.p99 * 1e3}, {"max_ms", summary.max * 1e3},       {"mean_ms", summary.mean * 1e3}};
}

}  // namespace treadle::cli
