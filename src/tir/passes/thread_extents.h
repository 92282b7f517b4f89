// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tir/passes/passes.h"

namespace treadle::tir {

/// Attributes "thread_extent" and "virtual_thread" of thread axes (T.launch_thread) become loops bound to them, the
/// form that schedules make and that the other passes expect.
PrimFunc BindThreadExtents(PrimFunc func, const LowerConfig& config);

}  // namespace treadle::tir
