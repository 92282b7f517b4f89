// SPDX-License-Identifier: Apache-2.0
// How far compiling is.
#pragma once

#include <cstddef>
#include <functional>

namespace treadle::driver {

/// Kernels of the model that is being compiled.
struct Progress {
  size_t done = 0;    ///< with machine code
  size_t cached = 0;  ///< of them, those that came from the cache on disk
  size_t total = 0;
};

/// Called after each kernel, one call at a time, from any of the compiling threads. An error that it throws ends the
/// compilation.
using ProgressFn = std::function<void(const Progress&)>;

}  // namespace treadle::driver
