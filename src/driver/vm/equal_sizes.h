// SPDX-License-Identifier: Apache-2.0
// Kernels for operands of equal sizes, where nothing but the run tells whether one of them is broadcast.
#pragma once

#include <optional>

#include "driver/vm/symbolic_kernel.h"

namespace treadle::driver {

/// A kernel for some of the sizes that another one takes.
struct SizeForm {
  SymbolicKernel kernel;
  PrimExpr condition;  ///< in terms of the caller: whether its sizes are among them
};

/// The form of `kernel` in which dimensions that are broadcast to each other are equal, as nearly always they are: it
/// has no indices that depend on whether a size is 1, and its loops are those of the operands. Nothing where no
/// dimensions may be broadcast, or where shapes depend on values.
std::optional<SizeForm> FormForEqualSizes(const SymbolicKernel& kernel, arith::Analyzer* analyzer);

}  // namespace treadle::driver
