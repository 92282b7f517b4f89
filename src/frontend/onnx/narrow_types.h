// SPDX-License-Identifier: Apache-2.0
// Elements of 8 bits and less that most operators don't compute with: a byte each in memory.
#pragma once

#include <string>

#include "frontend/onnx/node_import.h"

namespace treadle::onnx {

/// The type of a model's inputs and outputs of that element type, also of 4 and 2 bits. Throws UnsupportedOpError.
DataType StoredType(ElemType type, const std::string& where);

/// How a conversion to a narrow floating type treats what it can't hold.
struct NarrowRounding {
  bool saturate = true;           ///< the largest finite number, rather than infinity or NaN
  std::string round_mode = "up";  ///< of powers of two: up, down, nearest
};

/// `x` converted, whatever both types are.
relay::Expr ConvertTo(NodeImport& n, const relay::Expr& x, DataType dtype, const NarrowRounding& rounding = {});

}  // namespace treadle::onnx
