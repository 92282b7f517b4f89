// SPDX-License-Identifier: Apache-2.0
// What a trace of a schedule fits.
#pragma once

#include <cstdint>

#include "treadle/tir/function.h"

namespace treadle::tir {

/// Equal for functions on which the same traces can be replayed: StructuralHash, which leaves out names, together with
/// the names of the blocks in the order in which they are met. Traces find blocks by name, so that two functions of
/// equal structure whose blocks are called otherwise don't share them.
uint64_t TraceKey(const PrimFunc& func);

}  // namespace treadle::tir
