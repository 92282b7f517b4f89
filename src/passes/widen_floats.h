// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay::transform {

/// Option of the pass context (bool, false): whether a build begins with WidenFloats.
inline constexpr const char* kWidenFloats = "relay.WidenFloats";
void RegisterWidenFloatsOption();

/// Computes in float64 what the module states in narrower floats: the reference that errors are measured against.
/// Parameters of main keep their types, its results are float64. Scales and codes of quantised tensors, which are part
/// of a model's definition in float32, stay as they are.
treadle::transform::Pass WidenFloats();

}  // namespace treadle::relay::transform
