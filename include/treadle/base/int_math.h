// SPDX-License-Identifier: Apache-2.0
// Integer divisions that round up or down, where those of C++ round toward zero; divisors.
#pragma once

#include <cstdint>
#include <type_traits>

namespace treadle {

/// ceil(a / b) for a >= 0, b > 0 and a + b within the range of T.
template <typename T>
constexpr T CeilDiv(T a, std::type_identity_t<T> b) {
  static_assert(std::is_integral_v<T>);
  return (a + b - 1) / b;
}

/// The least multiple of `multiple` that isn't less than `value`; the operands are as CeilDiv's.
template <typename T>
constexpr T RoundUp(T value, std::type_identity_t<T> multiple) {
  return CeilDiv(value, multiple) * multiple;
}

/// floor(a / b) for b != 0, and the remainder, which has the sign of b. Not for the least int64 divided by -1.
constexpr int64_t FloorDivInt(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }
constexpr int64_t FloorModInt(int64_t a, int64_t b) { return a - FloorDivInt(a, b) * b; }

/// The largest divisor of value > 0 that isn't above `most`; at least 1. Takes time in proportion to `most`.
constexpr int64_t LargestDivisor(int64_t value, int64_t most) {
  int64_t best = 1;
  for (int64_t n = 2; n <= most; ++n) {
    if (value % n == 0) best = n;
  }
  return best;
}

}  // namespace treadle
