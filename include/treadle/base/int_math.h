// SPDX-License-Identifier: Apache-2.0
// Integer divisions that round up.
#pragma once

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

}  // namespace treadle
