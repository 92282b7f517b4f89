// SPDX-License-Identifier: Apache-2.0
// Random numbers: a hash of a seed and of each element's position, so that every run of a model gives the same.
#pragma once

#include "frontend/onnx/compose.h"

namespace treadle::onnx {

/// Evenly distributed in [0, 1), of the shape of `like`; `stream` tells apart what one node draws.
Term RandomUniform(const Term& like, DataType dtype, int64_t stream = 0);

}  // namespace treadle::onnx
