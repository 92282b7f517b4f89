// SPDX-License-Identifier: Apache-2.0
// Timing of repeated runs.
#pragma once

#include <functional>
#include <vector>

namespace treadle::runtime {

/// Seconds per run, one element per repetition: each repetition runs `number` times, more when that takes less than
/// `min_repeat_ms`. One run beforehand isn't measured.
std::vector<double> TimeRuns(const std::function<void()>& run, int number, int repeat, int min_repeat_ms);

}  // namespace treadle::runtime
