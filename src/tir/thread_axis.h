// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "treadle/ir/prim_ops.h"

namespace treadle::tir {

/// What a loop bound to the thread axis `tag` refers to. Its range is the loop's, so that passes that change the loop
/// leave nothing behind. Loops of different variables have different ones.
inline IterVar ThreadAxis(const std::string& tag, DataType dtype) {
  return IterVar(Range(), Var(tag, dtype), IterVarType::kThreadIndex, tag);
}
/// One for a renamed copy of a loop that `thread` belongs to; null for null.
inline IterVar FreshThreadAxis(const IterVar& thread) {
  if (!thread.defined()) return thread;
  return IterVar(thread->dom, Var(thread->var->name_hint, thread->var.dtype()), thread->iter_type, thread->thread_tag);
}

}  // namespace treadle::tir
