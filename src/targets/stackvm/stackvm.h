// SPDX-License-Identifier: Apache-2.0
// Interpreter of loop-level code: the oracle that other backends are compared with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "targets/backend.h"
#include "targets/stackvm/program.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::targets {

/// Bytecode of a function in schedulable or low-level form.
VmProgram CompileToVm(const tir::PrimFunc& func);
/// Runs a function in schedulable or low-level form on CPU tensors (one per buffer parameter, in order). Symbolic
/// dimensions are taken from the tensors. Checks dtypes, ranks, shapes and every index.
/// Throws ShapeError, DTypeError, RuntimeError (index out of bounds, failed assertion).
void RunPrimFunc(const tir::PrimFunc& func, const std::vector<runtime::NDArray>& args);

}  // namespace treadle::targets
