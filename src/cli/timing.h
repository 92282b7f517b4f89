// SPDX-License-Identifier: Apache-2.0
// Statistics of times.
#pragma once

#include <string>
#include <vector>

#include "treadle/base/json.h"

namespace treadle::cli {

struct TimeSummary {
  size_t runs = 0;
  double min = 0, p25 = 0, median = 0, p75 = 0, p90 = 0, p99 = 0, max = 0, mean = 0;  ///< seconds
};

TimeSummary Summarise(std::vector<double> seconds);
/// A time in milliseconds: with that many decimals, or as many more as give `digits` digits that aren't leading zeros.
std::string Milliseconds(double seconds, int decimals, int digits);

/// "time 1.234 ms median of 10 runs (1.200 to 1.300, min 1.190)".
std::string ToText(const TimeSummary& summary);
Json ToJson(const TimeSummary& summary);

}  // namespace treadle::cli
