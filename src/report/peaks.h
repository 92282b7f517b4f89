// SPDX-License-Identifier: Apache-2.0
// The roofline of this machine.
#pragma once

#include <string>

#include "report/model_run.h"

namespace treadle::report {

/// What this machine's float32 multiply-adds and memory reach with `threads` threads (0: all) in code for `target`: the
/// clock and the speed of caches and memory are measured, for some 0.1 s, the multiply-adds per cycle are those of the
/// machine's cost model. Zeros where the target isn't this machine's.
Peaks MeasurePeaks(const std::string& target, int threads);

}  // namespace treadle::report
