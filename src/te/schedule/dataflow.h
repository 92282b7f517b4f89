// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "treadle/te/tensor.h"

namespace treadle::te {

/// The operation with the tensors that it reads mapped; the same object where nothing changes.
Operation WithReplacedInputs(const Operation& op, const std::function<Tensor(const Tensor&)>& map);

}  // namespace treadle::te
