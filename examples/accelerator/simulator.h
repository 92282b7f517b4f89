// SPDX-License-Identifier: Apache-2.0
// The accelerator, simulated: a device of Treadle's run time with memory of its own, and its unit for matrices.
#pragma once

#include <treadle/runtime/device.h>

#include <vector>

#include "isa.h"

namespace myaccel {

/// The device's number among Treadle's device types: "device_12".
inline constexpr treadle::runtime::Device kDevice{kDLExtDev, 0};

/// Adds the device to this process; further calls do nothing.
void RegisterDevice();

/// Runs a program in a block of the device's memory. Throws RuntimeError for instructions that don't exist and for
/// those that reach beyond the block.
void Execute(const std::vector<uint64_t>& program, void* block, size_t lines);

}  // namespace myaccel
