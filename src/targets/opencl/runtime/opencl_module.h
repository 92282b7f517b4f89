// SPDX-License-Identifier: Apache-2.0
// Kernels in OpenCL C with what a launch needs to know.
//
// A stored module, little-endian: u32 2; string source; u64 number of kernels; per kernel: string name, u64 number of
// arguments, per argument u8 code and u8 bits of its dtype (a handle is a buffer in device memory), u64 number of
// thread axes, per axis string tag ("blockIdx.x", "threadIdx.y", ...), u64 threads of a block along x, y and z (0 where
// only a launch knows), u64 bytes that the threads of a block share. Strings are u64 length and bytes. Version 1 has
// nothing after the tags.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "treadle/runtime/data_type.h"
#include "treadle/runtime/module.h"

namespace treadle::runtime::opencl {

/// How one kernel is called: its packed function takes the arguments, then one extent for each thread axis. Axes that
/// aren't named have extent 1.
struct KernelInfo {
  std::string name;
  std::vector<DataType> args;
  std::vector<int> axes;               ///< 0 to 2: blockIdx.x to .z; 3 to 5: threadIdx.x to .z
  std::array<uint64_t, 3> block = {};  ///< threads along x, y and z; 0: only a launch knows
  uint64_t shared_bytes = 0;           ///< of memory that the threads of a block share
};

/// A module of type "opencl" from its stored form. Programs are built for a device at its first launch.
Module LoadOpenCLModule(std::string_view bytes);

}  // namespace treadle::runtime::opencl
