// SPDX-License-Identifier: Apache-2.0
// Copies of large tensors in files without a name instead of memory: the system writes their pages out and takes them
// back, so that models whose weights are as large as the memory can be compiled.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "treadle/runtime/ndarray.h"

namespace treadle::runtime {

/// Fewer bytes aren't worth a mapping of their own.
inline constexpr size_t kLeastFileBacked = size_t{1} << 20;

/// A copy of `bytes` bytes at an address that is a multiple of the page size, in a file below $TMPDIR, /tmp or /var/tmp
/// that nobody else sees and that goes with its last owner. Only for reading; ReleasePages gives its pages back. Null
/// where `bytes` is less than kLeastFileBacked or no such folder lies on a disk with twice as much room.
std::shared_ptr<const void> CopyToFile(const void* data, size_t bytes);

/// The compact array, in such a file; `array` itself where there is none.
NDArray ToFile(const NDArray& array);

/// Whether memory is getting short: half of what this process may use (the machine's, or what its control group or
/// `ulimit -d` allows) is its own already, or less than an eighth of that is available. `root` is prefixed to /proc and
/// /sys.
bool MemoryIsShort(const std::string& root = "");

}  // namespace treadle::runtime
