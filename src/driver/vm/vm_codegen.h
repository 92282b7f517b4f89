// SPDX-License-Identifier: Apache-2.0
// From an optimised module to a program of the virtual machine.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "treadle/ir/module.h"
#include "treadle/relay/expr.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/runtime/vm/program.h"

namespace treadle::driver {

struct VmProgram {
  runtime::vm::Program program;
  std::vector<runtime::NDArray> constants;
};

/// Gives the symbol of the kernel for a fused function.
using DeclareKernel = std::function<std::string(const relay::Function&)>;

/// Compiles each function of the module that isn't a kernel; "main" is the entry where there is one. Functions are
/// typed; operators are fused into primitive functions, or called directly (then each is a kernel of its own).
///
/// Dimensions: a variable in the type of a parameter is bound to the argument's dimension when the function starts,
/// and a mismatch where it occurs again is a ShapeError then; dimensions of results are computed from those, or from
/// values where operators say so.
VmProgram GenerateVmProgram(const IRModule& module, const DeclareKernel& declare);

}  // namespace treadle::driver
