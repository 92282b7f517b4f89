// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay::transform {

/// Operators between qnn.dequantize and qnn.quantize work on the integers themselves where that gives the same.
treadle::transform::Pass FakeQuantizationToInteger();
/// Products with constant weights that have a scale for every block of rows multiply the numbers as they are stored.
treadle::transform::Pass PackBlockWeights();
/// Writes qnn.* operators as plain ones, by the rule kQnnCanonicalize that each states.
treadle::transform::Pass QnnCanonicalize();

}  // namespace treadle::relay::transform
