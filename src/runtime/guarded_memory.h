// SPDX-License-Identifier: Apache-2.0
// Memory for finding kernels that read or write outside their buffers.
#pragma once

#include <cstddef>

namespace treadle::runtime {

/// Whether the environment asks for it (TREADLE_GUARD_MEMORY=1): each buffer on the CPU then lies alone between pages
/// that end the process when they are touched, and buffers aren't reused.
bool GuardsMemory();

/// `bytes` that end where memory ends, but for what is left of `alignment`, and are filled with NaN. Null where there
/// is no memory.
void* AllocGuarded(size_t bytes, size_t alignment);
/// Frees what AllocGuarded returned.
void FreeGuarded(void* data);

}  // namespace treadle::runtime
