// SPDX-License-Identifier: Apache-2.0
// A function for a device with memory of its own becomes kernels and a host function that launches them.
#pragma once

#include <vector>

#include "treadle/tir/function.h"

namespace treadle::tir {

/// What SplitHostDevice makes of a function.
struct HostDevice {
  /// As the function, with launches in place of what touches the function's buffers: calls of packed functions by the
  /// kernels' names, with the kernel's arguments, then one extent per thread axis. Buffers that it allocates have the
  /// annotation kDeviceType. Has the attribute kDeviceType.
  PrimFunc host;
  /// Parameters: data pointers and scalars. The body begins with one AttrStmt thread_extent per thread axis, whose node
  /// is an IterVar with the tag; loops bound to threads are gone, what threads must wait for is marked by
  /// tvm_storage_sync. Buffers that the threads of a block share are allocated outside of everything else but the axes,
  /// with the annotation kSharedByBlock.
  std::vector<PrimFunc> kernels;
};

/// Attribute of functions and annotation of allocations: the DLPack type of the device that the memory is of.
inline constexpr const char* kDeviceType = "device_type";

/// Annotation of a kernel's allocations that all threads of a block share.
inline constexpr const char* kSharedByBlock = "shared_by_block";

/// Splits a function in low-level form. Loops bound to blockIdx.* and threadIdx.* become the axes of a kernel's grid;
/// parallel loops that no thread runs become blocks; what is outside of both runs in a kernel of one thread, so that
/// every function can be split. Statements of a block that its threads don't share are run by the first of them.
/// Of loops bound to an axis within a loop that is bound to it, each thread runs one iteration for all.
/// Statements that call packed functions or assert run on the host, on copies of the buffers that they use.
/// TargetError: an axis that doesn't exist, an axis of blocks within itself, blocks that would have to wait for each
/// other, iterations that threads are to share although they aren't the same for all of them, a barrier that not all
/// threads would meet.
HostDevice SplitHostDevice(const PrimFunc& func, int device_type);

}  // namespace treadle::tir
