// SPDX-License-Identifier: Apache-2.0
// Loops bound to threads become the body of a kernel.
#pragma once

#include <array>

#include "treadle/tir/stmt.h"

namespace treadle::tir {

inline constexpr std::array<const char*, 6> kThreadAxes = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                                           "threadIdx.x", "threadIdx.y", "threadIdx.z"};
/// In that list, of those of threads of one block.
inline constexpr size_t kFirstThread = 3;

/// Whether the statement is a loop bound to a thread axis that isn't virtual.
bool IsThreadLoop(const ObjectRef& node);
bool HasThreads(const Stmt& stmt);
/// Position in kThreadAxes of the axis that the loop is bound to; TargetError: it isn't one of them.
size_t AxisOf(const ForNode* loop);
bool ReadsMemory(const PrimExpr& e);
/// Bytes of a buffer of constant size, or -1.
int64_t ConstantBytes(const Buffer& buffer);

/// An axis of a kernel's grid.
struct KernelAxis {
  PrimExpr extent;  ///< the largest of the loops'
  Var var{"", DataType::Int(32)};
  bool used = false;
};
struct KernelBody {
  Stmt body;  ///< begins with an AttrStmt thread_extent for each axis that is used
  std::array<KernelAxis, 6> axes;
};
/// Turns a nest with thread-bound loops into the body of a kernel, with the barriers that it needs. Of a loop bound to
/// an axis within a loop that is bound to it, each thread runs one iteration for all (see ShareAmongThreads).
/// TargetError: see SplitHostDevice.
KernelBody MakeKernelBody(const Stmt& nest);

/// Marks the buffers (kSharedByBlock) that are allocated within loops bound to threads, but that several threads use:
/// those which are filled by loops that are bound to the same axes again (the threads fetch together what they all
/// need), or by loops bound to other axes. Such a buffer is one for all threads, or has a copy for each of the threads
/// for which it holds something else. The nest still means the same where its loops run one after the other.
/// TargetError: the iterations of such a loop aren't the same for all threads.
Stmt ShareAmongThreads(const Stmt& nest);

/// Adds barriers between accesses of buffers that threads share (kSharedByBlock), those that another iteration makes
/// included. TargetError: not all threads of the block would meet one.
Stmt SyncThreads(const Stmt& kernel);

}  // namespace treadle::tir
