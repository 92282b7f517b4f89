// SPDX-License-Identifier: Apache-2.0
// Functions for devices with memory of their own: host code that launches, and a module with the kernels.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/module.h"
#include "treadle/ir/target.h"
#include "treadle/runtime/module.h"
#include "treadle/targets/target_spec.h"
#include "treadle/tir/function.h"

namespace treadle::driver {

/// Whether functions for the target work on memory of a device other than the CPU.
bool IsDevice(const Target& target);
/// The target that host code is compiled for: the target itself where it is a CPU's, else its host or this machine.
Target HostOf(const Target& target);

/// Throws a TargetError for what a function computes for a device in loops that aren't bound to its threads: it would
/// run as one thread. Scalars may be computed so.
void CheckBound(const IRModule& module, const Target& target);

/// Functions in low-level form, split.
struct DeviceCode {
  std::vector<tir::PrimFunc> host;  ///< one per function, for HostOf(target)
  std::string source;               ///< text of the kernels
  runtime::Module module;           ///< what the host code's module must import
};
/// Splits functions for a device and generates the kernels' code.
DeviceCode GenerateDeviceCode(const std::vector<tir::PrimFunc>& funcs, const Target& target);

}  // namespace treadle::driver
