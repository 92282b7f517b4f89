// SPDX-License-Identifier: Apache-2.0
// Loops over the units of a recurrent layer (recurrent.cc, byte_recurrent.cc): its packed weights have panels of 16
// columns, of which the last may have fewer that are units.
#pragma once

#include <functional>

#include "targets/cpu/kernels/packing.h"
#include "treadle/tir/stmt.h"

namespace treadle::ops::cpu {

/// The first `count` lanes of a panel: one vector if they are a power of two, of at least `least_vector`; else a serial
/// loop.
tir::Stmt ForLanes(const std::function<tir::Stmt(const PrimExpr& lane)>& body, int64_t count, int64_t least_vector);

/// The panels of `units`; `body` is given how many of a panel's columns are units.
tir::Stmt ForPanels(int64_t units, const std::function<tir::Stmt(const PrimExpr& panel, int64_t count)>& body,
                    bool parallel = false);

}  // namespace treadle::ops::cpu
