// SPDX-License-Identifier: Apache-2.0
// Inputs that come from no file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

/// Sizes that a compiled model leaves open.
struct DynamicSizes {
  std::map<std::string, int64_t> dims;                 ///< by the names of dimensions
  std::map<std::string, std::vector<int64_t>> shapes;  ///< by inputs
};

/// Whether dimension `axis` of an input of that rank counts the samples of a batch.
bool IsBatch(size_t axis, size_t rank, const std::string& dim_name);

/// "\nhelp: .." with the flags that give the sizes that a model leaves open (negative) of an input, as they can be
/// typed. The names of its dimensions may be empty.
std::string SizesHelp(const std::string& input, const std::vector<int64_t>& shape,
                      const std::vector<std::string>& dim_names);

/// The input with those of its dynamic dimensions replaced by the given sizes.
runtime::TensorInfo WithSizes(runtime::TensorInfo info, const DynamicSizes& sizes);

/// A tensor of an input's type and shape; dynamic dimensions as given, a batch 1 (reported on standard error).
/// The same for the same seed. Throws Error for dynamic dimensions without a size and numbers that the type doesn't
/// have, DTypeError for inputs that aren't numbers.
runtime::NDArray MakeFilled(const runtime::TensorInfo& info, const Fill& fill, unsigned seed,
                            const DynamicSizes& sizes = {});

}  // namespace treadle::cli
