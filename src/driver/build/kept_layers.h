// SPDX-License-Identifier: Apache-2.0
// Layers that the user keeps in float32 (option relay.precision.keep), one name per line.
#pragma once

#include "treadle/ir/module.h"
#include "treadle/ir/transform.h"

namespace treadle::driver {

/// Throws Error if the option names a layer that no operator of the module has: a misspelt name would otherwise have no
/// effect. To be called before passes run, which merge and drop operators.
void CheckKeptLayers(const IRModule& module, const transform::PassContext& context);

}  // namespace treadle::driver
