// SPDX-License-Identifier: Apache-2.0
// Runs of a model with a time for each call.
#pragma once

#include <vector>

#include "cli/compiler_api.h"
#include "cli/timing.h"

namespace treadle::cli {

/// Measures `repeat` runs of page->model: whole ones and by call, in turns. Fills timings (medians), seconds and
/// threads of `page`. Returns the whole runs' times, in seconds. `last`, if not null, becomes the last run's calls.
std::vector<double> Measure(const runtime::NamedTensors& inputs, int repeat, int threads, PageRequest* page,
                            std::vector<runtime::OpTiming>* last = nullptr);

}  // namespace treadle::cli
