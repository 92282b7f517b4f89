// SPDX-License-Identifier: Apache-2.0
// A model of static shapes as C sources that need nothing but a C99 compiler.
#pragma once

#include <string>

#include "treadle/driver/compile.h"

namespace treadle::driver {

/// Writes into `directory` (created if need be): model.h (the interface, with inputs and outputs described), model.c
/// (the order of kernels), kernels.c, weights.c and a Makefile. `model` was built for target c. Throws TargetError
/// otherwise, and for models with values of unknown shape.
void ExportCBundle(const CompiledModel& model, const std::string& directory);

}  // namespace treadle::driver
