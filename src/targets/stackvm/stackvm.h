// SPDX-License-Identifier: Apache-2.0
// Interpreter of loop-level code: the oracle that other targets are compared with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "targets/stackvm/program.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/tir/function.h"

namespace treadle::targets {

/// Bytecode of a function in schedulable or low-level form.
VmProgram CompileToVm(const tir::PrimFunc& func);
/// Runs a function in schedulable or low-level form on CPU tensors (one per buffer parameter, in order). Symbolic
/// dimensions are taken from the tensors. Checks dtypes, ranks, shapes and every index.
/// Throws ShapeError, DTypeError, RuntimeError (index out of bounds, failed assertion).
void RunPrimFunc(const tir::PrimFunc& func, const std::vector<runtime::NDArray>& args);

/// Functions with global symbols as a module of type "stackvm". Parameters may be numbers too. The one that a call of
/// the module calls is marked (tir.is_entry_func), or else the first.
runtime::Module MakeStackVMModule(const std::vector<tir::PrimFunc>& functions);
/// Adds the loaders of saved modules.
void RegisterStackVMLoaders();

}  // namespace treadle::targets
