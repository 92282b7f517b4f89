// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/module.h"

namespace treadle::driver {

/// Tuples within the result of main become one list of tensors, in their order: executors of graphs give tensors. The
/// module itself where there are none.
IRModule FlattenOutputs(const IRModule& module);

}  // namespace treadle::driver
