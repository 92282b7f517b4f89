// SPDX-License-Identifier: Apache-2.0
// Inputs that come from no file.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "treadle/runtime/model.h"

namespace treadle::cli {

/// How an input is filled: a number everywhere, or random ones.
struct Fill {
  std::optional<double> value;
  std::optional<std::pair<double, double>> range;  ///< of random numbers; none: normal floats, integers from 0 to 9
};

/// Of "random", "random:0..255" (both ends included for integers), "ones", "zeros" or a number; nothing for other
/// texts. Throws Error for ranges that can't be read or end before they begin.
std::optional<Fill> ParseFill(const std::string& text);

/// A tensor of an input's type, and of its shape with 1 for dimensions that aren't known. The same for the same seed.
/// Throws DTypeError for inputs that aren't numbers, Error for numbers that the type doesn't have.
runtime::NDArray MakeFilled(const runtime::TensorInfo& info, const Fill& fill, unsigned seed);

}  // namespace treadle::cli
