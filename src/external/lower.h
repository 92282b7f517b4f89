// SPDX-License-Identifier: Apache-2.0
// Calls external code generators and checks what they return.
#pragma once

#include "treadle/external/codegen.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::external {

/// Runs the code generator that attribute Compiler names on a region (without that attribute). Throws an error that
/// names the code generator, the region and its operators when there is no such code generator, when it throws, when it
/// returns something else than a module, a module that lacks the function or can't be stored, or C that doesn't
/// compile. C source modules receive their constants here.
Module CompileRegion(const Function& region);

/// The constants of a region by name, as relay.ext.<compiler>.constant_updater says, else as DefaultConstants.
Map<String, runtime::NDArray> ConstantsOfRegion(const Function& region);

}  // namespace treadle::external
