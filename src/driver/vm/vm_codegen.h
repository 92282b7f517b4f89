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

/// The kernel for a fused function, or what an external code generator makes of one.
struct DeclaredKernel {
  std::string symbol;
  int device_type = kDLCPU;  ///< where its arguments and results are
};
using DeclareKernel = std::function<DeclaredKernel(const relay::Function&)>;

/// Compiles each function of the module that isn't a kernel; "main" is the entry where there is one. Functions are
/// typed; operators are fused into primitive functions, or called directly (then each is a kernel of its own).
///
/// Dimensions: a variable in the type of a parameter is bound to the argument's dimension when the function starts,
/// and a mismatch where it occurs again is a ShapeError then; dimensions of results are computed from those, or from
/// values where operators say so.
///
/// Devices: a kernel's results are where it runs. What it reads is copied there where it is elsewhere, once for each
/// value and device on a path; constants are placed when the program is loaded. What the machine itself reads
/// (conditions, dimensions, what host functions take) is brought to the CPU. Without `has_devices` all is on the CPU.
VmProgram GenerateVmProgram(const IRModule& module, const DeclareKernel& declare, bool has_devices = false);

}  // namespace treadle::driver
