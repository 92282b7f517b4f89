// SPDX-License-Identifier: Apache-2.0
// Loop-level functions to a module that can be called.
#pragma once

#include "treadle/ir/module.h"
#include "treadle/ir/target.h"
#include "treadle/runtime/module.h"

namespace treadle::driver {

/// `func` as one of a module: all loop-level functions are lowered for the target.
IRModule LowerModule(const IRModule& module, const Target& target, bool simple_mode);

/// Compiles the loop-level functions of the module, lowering those that aren't yet. What the module is follows the
/// target's form (targets::ModuleForm): native code, host code that imports a module with the kernels of a device, a
/// module of the target's own (an interpreter's program), or text.
/// What a target can't compile is a TargetError with its reason.
runtime::Module BuildModule(const IRModule& module, const Target& target);

}  // namespace treadle::driver
