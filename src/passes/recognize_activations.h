// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay::transform {

using treadle::transform::Pass;

/// Activations that exporters write as several operators (Mish, both forms of GELU) become one.
Pass RecognizeActivations();

}  // namespace treadle::relay::transform
