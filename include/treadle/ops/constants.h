// SPDX-License-Identifier: Apache-2.0
// Reading constants of graphs: lists of shapes, axes, scales.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "treadle/relay/expr.h"

namespace treadle::ops {

/// The elements of an integer constant of rank 0 or 1 (any integer type); nothing for other expressions.
std::optional<std::vector<int64_t>> ConstIntegers(const relay::Expr& expr);
/// The elements of a constant of rank 0 or 1 whose type is a number; nothing for other expressions.
std::optional<std::vector<double>> ConstNumbers(const relay::Expr& expr);

}  // namespace treadle::ops
