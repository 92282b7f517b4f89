// SPDX-License-Identifier: Apache-2.0
// What was measured of this machine: made once, kept beside the cache of kernels, taken by builds for -mcpu=native.
#pragma once

#include <functional>
#include <string>

#include "targets/cpu/calibration.h"
#include "treadle/ir/target.h"
#include "treadle/ir/transform.h"

namespace treadle::driver {

/// Measures this machine and keeps the result. Throws Error where it can't be measured, or there is no cache to keep it
/// in. `measure`: what does it, for tests.
targets::Calibration Calibrate(
    const std::function<targets::Calibration(const TargetFeatures& features)>& measure = nullptr);
/// As text; "" where this machine (processor, caches, cores) has none, or it can't be read.
std::string StoredCalibration();
/// Whether there was one.
bool ForgetCalibration();

/// `context` with the stored calibration (option schedule.calibration), where `target` is for this machine and the
/// option isn't set; "none" takes the option away. Throws Error where the option's text can't be read.
transform::PassContext WithCalibration(const transform::PassContext& context, const Target& target);

}  // namespace treadle::driver
