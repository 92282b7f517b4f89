// SPDX-License-Identifier: Apache-2.0
// Timing of repeated runs.
#pragma once

#include <functional>
#include <vector>

namespace treadle::runtime {

/// Seconds per run, one element per repetition: each repetition runs `number` times, more when that takes less than
/// `min_repeat_ms`. One run beforehand isn't measured.
std::vector<double> TimeRuns(const std::function<void()>& run, int number, int repeat, int min_repeat_ms);

/// Two functions that ran next to each other: seconds of a run of each, and whether others are known to have run then.
struct TimedPair {
  double a = 0, b = 0;
  bool disturbed = false;
};

/// One pair of several: the least of each, of those that weren't disturbed; disturbed itself where fewer than half, or
/// but one of several, are left.
TimedPair LeastOf(const std::vector<TimedPair>& parts);

/// The median of the parts' times over the least, of the side where that is larger.
double SpreadOf(const std::vector<TimedPair>& parts);

}  // namespace treadle::runtime
