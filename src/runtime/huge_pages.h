// SPDX-License-Identifier: Apache-2.0
// Data in large pages of memory.
#pragma once

#include <cstddef>

namespace treadle::runtime {

/// Replaces what lies in whole huge pages of [data, data + bytes), which is mapped and only read, by equal memory of
/// the process in huge pages: at the same addresses, while others may read it. Of a file, the processor reads ahead to
/// the end of each small page only, and finds few of them without searching: weights that pass once a run arrive a
/// quarter faster from huge pages. Does nothing for few bytes, and where the system has none.
void MoveToHugePages(const void* data, size_t bytes);

}  // namespace treadle::runtime
