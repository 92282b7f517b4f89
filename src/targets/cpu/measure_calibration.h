// SPDX-License-Identifier: Apache-2.0
// Measures the machine at hand.
#pragma once

#include "targets/cpu/calibration.h"
#include "treadle/ir/target.h"

namespace treadle::targets {

/// Cycles of the core's clock per second, or 0 where it isn't known how to count them.
double MeasureClock();

/// Rates of a core of this machine, whose features are `features` (-mcpu=native), in about two seconds, while which it
/// should do nothing else. Parts that it can't measure stay 0: pipelines without fused multiply-adds, an L3 cache that
/// isn't there, other cores where it may use one only. Takes up to a quarter GiB of memory meanwhile.
Calibration MeasureCalibration(const TargetFeatures& features);

}  // namespace treadle::targets
