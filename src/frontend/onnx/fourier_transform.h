// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms as products with matrices of waves. Lengths that are composite are transformed by their
// factors (Cooley & Tukey 1965, "An Algorithm for the Machine Calculation of Complex Fourier Series"), so that the
// matrices stay small and the products those that every target is fast at.
#pragma once

#include "frontend/onnx/compose.h"

namespace treadle::onnx {

struct FourierForm {
  bool inverse = false;              ///< of the other sign, over the length
  int64_t parts = 1, out_parts = 2;  ///< 1: the real ones only
  Term columns;                      ///< how many results, counted from the first, int64 scalar
};

/// x (.., length, parts), floats: (.., columns, out_parts). `length`, an int64 scalar of at least 1, has to be the size
/// of that dimension.
Term FourierTransform(const Term& x, const Term& length, const FourierForm& form);

}  // namespace treadle::onnx
