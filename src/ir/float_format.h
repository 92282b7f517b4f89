// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "treadle/base/half.h"
#include "treadle/runtime/data_type.h"

namespace treadle {

/// How elements of a floating type of 16 or 8 bits are encoded; nothing for other types.
std::optional<FloatFormat> SmallFloatFormat(DataType dtype);

}  // namespace treadle
