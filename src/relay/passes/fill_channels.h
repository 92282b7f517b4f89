// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/transform.h"

namespace treadle::relay::transform {

/// Tensors between convolutions get channels that nobody reads where the model's don't divide into vectors of `block`.
treadle::transform::Pass FillChannels(int64_t block);

}  // namespace treadle::relay::transform
