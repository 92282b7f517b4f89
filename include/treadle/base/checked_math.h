// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that come from a file or a user: overflow is an error, never a wrap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "treadle/base/error.h"

namespace treadle {

/// Largest number of bytes that one tensor may have (2^48).
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 48;

template <typename T>
T CheckedAdd(T a, T b, const char* what = "size") {
  T result;
  if (__builtin_add_overflow(a, b, &result)) throw ShapeError(StrCat(what, " overflows: ", a, " + ", b));
  return result;
}

template <typename T>
T CheckedMul(T a, T b, const char* what = "size") {
  T result;
  if (__builtin_mul_overflow(a, b, &result)) throw ShapeError(StrCat(what, " overflows: ", a, " * ", b));
  return result;
}

/// Product of the dimensions of a shape (1 for rank 0). Throws ShapeError on a negative dimension or on overflow.
template <typename Shape>
int64_t NumElements(const Shape& shape) {
  int64_t count = 1;
  bool zero = false;
  for (int64_t dim : shape) {
    if (dim < 0) throw ShapeError(StrCat("negative dimension ", dim));
    if (dim == 0) zero = true;
  }
  if (zero) return 0;
  for (int64_t dim : shape) count = CheckedMul<int64_t>(count, dim, "number of elements");
  return count;
}

}  // namespace treadle
