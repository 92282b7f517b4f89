// SPDX-License-Identifier: Apache-2.0
// What is promised of a dynamic dimension: a range, and what it is a multiple of.
#pragma once

#include <cstdint>
#include <string>

namespace treadle::driver {

/// Attribute of main: a Map from names of dimensions to [min, max, multiple].
inline constexpr const char* kDimRanges = "dim_ranges";

/// Bounds are multiples, min <= max.
struct DimRange {
  int64_t min = 0, max = INT32_MAX, multiple = 1;

  /// "1..8", "16..", "..640", "32k" (multiples of 32) or both, "64..640:32k". Throws Error for other texts, and for
  /// ranges that hold no size; `name` is the dimension's.
  static DimRange Parse(const std::string& name, const std::string& text);
  /// The size of the range that is next to `size`, or below it.
  int64_t Nearest(int64_t size) const;
  /// "64..640, a multiple of 32".
  std::string str() const;
};

}  // namespace treadle::driver
