// SPDX-License-Identifier: Apache-2.0
// ONNX element types and tensors as Treadle's.
#pragma once

#include <optional>
#include <string>

#include "frontend/onnx/model.h"
#include "treadle/runtime/data_type.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::onnx {

/// Treadle's type for an ONNX element type. Integers of 4 and 2 bits become int8 or uint8 (a byte per element).
/// Nothing for strings, complex numbers and floats of 4 and 6 bits, which Treadle doesn't compute with.
std::optional<DataType> ToDataType(ElemType type);
/// As above; throws UnsupportedOpError that begins with `where`.
DataType ToDataTypeOrThrow(ElemType type, const std::string& where);

/// The tensor as an array on the CPU: a view of the file where its bytes are aligned for vector loads and in the
/// array's form, else a copy, with `in_file` in a file (runtime/file_backed.h) where that can be. `where` begins the
/// message of the UnsupportedOpError for types without counterpart.
NDArray ToNDArray(const Tensor& tensor, const std::string& where, bool in_file = false);

/// The dense form of a sparse tensor.
NDArray ToNDArray(const SparseTensor& tensor, const std::string& where);

}  // namespace treadle::onnx
