// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace treadle::ops::cpu {

/// Attribute of functions whose computations no operator stands for: their schedule looks at what they compute.
inline constexpr const char* kAnyExpressions = "tir.any_expressions";

}  // namespace treadle::ops::cpu
