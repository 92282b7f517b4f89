// SPDX-License-Identifier: Apache-2.0
// Schedules for tensor expressions that come without one.
#pragma once

#include "treadle/ir/target.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/function.h"

namespace treadle::targets {

/// The tensors with computations that the target has a kernel for in that kernel's form: on CPUs, matrix products whose
/// right operand is packed as it goes. Placeholders stay; others may be new tensors of the same values, whose sums are
/// in another order. A graph with statements (te::Extern) or scans stays as it is.
Array<te::Tensor> WithKernels(const Array<te::Tensor>& tensors, const Target& target);

/// `func`, as CreatePrimFunc makes it, with the target's loops: tiles in registers, vectors, threads. Where they can't
/// be made (symbolic sizes), `func` itself.
tir::PrimFunc AutoSchedule(const tir::PrimFunc& func, const Target& target);

}  // namespace treadle::targets
