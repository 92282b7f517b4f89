// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace treadle::cli {

/// What a part of the program may use; 0: no limit.
struct Bounds {
  double seconds = 0;
  int64_t bytes = 0;  ///< of writable memory
  bool any() const { return seconds > 0 || bytes > 0; }
};

/// Goes on in a child process that keeps within `bounds`: returns nothing there. In the parent: the exit status of the
/// child, when it has ended. Call it while there is one thread. Throws RuntimeError that names `what` where the child
/// took too long or was ended by a signal, as LLVM does when memory runs out where it can't go back.
std::optional<int> ContinueInChild(const Bounds& bounds, const std::string& what);

}  // namespace treadle::cli
