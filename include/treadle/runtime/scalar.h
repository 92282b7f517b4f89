// SPDX-License-Identifier: Apache-2.0
// Elements of tensors as numbers: the one reader and writer for all element types (integers, bool, binary64 down to
// the 8-bit floats, and types below 8 bits, which take a byte each).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "treadle/base/half.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::runtime {

/// How elements of a floating type of 16 bits or less are encoded; nothing for other types.
std::optional<FloatFormat> SmallFloatFormat(DataType dtype);

/// Whether elements of the type are numbers: integers, bools or floats of a known format, one lane.
bool IsNumber(DataType dtype);

/// Element `i` of `data`, an array of elements of `dtype` in memory. As a double: exact for all types but integers
/// beyond 2^53, which are rounded. Throws DTypeError for types that aren't numbers, as all functions here.
double LoadDouble(DataType dtype, const void* data, int64_t i);
/// As an int64: integers exactly (uint64: the same bits), bools as 0 or 1; floats are truncated, saturated, NaN is 0.
int64_t LoadInt64(DataType dtype, const void* data, int64_t i);
/// Stores a number as element `i`: floats are rounded once, to nearest even; integers truncated and saturated, NaN
/// becomes 0; bools are whether it isn't 0.
void StoreDouble(DataType dtype, void* data, int64_t i, double value);
/// As StoreDouble, but integers keep the low bits of `value`.
void StoreInt64(DataType dtype, void* data, int64_t i, int64_t value);

/// Element `i` in row-major order of a compact tensor on the CPU.
inline double ElementAsDouble(const NDArray& tensor, int64_t i) {
  return LoadDouble(tensor.dtype(), tensor.data_ptr(), i);
}
inline int64_t ElementAsInt64(const NDArray& tensor, int64_t i) {
  return LoadInt64(tensor.dtype(), tensor.data_ptr(), i);
}

/// All elements in row-major order, from any device and layout in memory.
std::vector<double> ToDoubles(const NDArray& tensor);
std::vector<int64_t> ToInt64s(const NDArray& tensor);
/// A tensor of these elements; ShapeError unless there are as many as the shape has.
NDArray FromDoubles(const std::vector<double>& values, const std::vector<int64_t>& shape, DataType dtype);
NDArray FromInt64s(const std::vector<int64_t>& values, const std::vector<int64_t>& shape, DataType dtype);

}  // namespace treadle::runtime
