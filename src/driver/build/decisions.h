// SPDX-License-Identifier: Apache-2.0
// What was decided about a model, in words.
#pragma once

#include <string>

#include "treadle/driver/compile.h"

namespace treadle::driver {

/// Lines that begin with '#': what runs the program and why; of each kernel the model's nodes, operators, layouts,
/// element types, device or external code generator; what wasn't fused, and what external code generators left, with
/// the reasons. `fusion`: of relay::transform::FusionReport. `device`: the default one, a DLDeviceType.
std::string DecisionsText(const CompiledModel& model, const std::string& fusion, int device);

}  // namespace treadle::driver
