// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace treadle::tir {

/// Attribute of functions whose computations no operator stands for: their schedule looks at what they compute, and
/// ends of rows are vectors of their own.
inline constexpr const char* kAnyExpressions = "tir.any_expressions";

}  // namespace treadle::tir
