// SPDX-License-Identifier: Apache-2.0
// Functions by name, for what is dynamic: plug-ins, Python, the C ABI, loaders of module kinds.
#pragma once

#include <string>
#include <vector>

#include "treadle/runtime/packed_func.h"

namespace treadle::runtime {

/// The process-wide table of named functions. Thread-safe. The runtime's own functions are in it from the start.
class Registry {
 public:
  /// Adds a function; a name that is taken is an Error unless `override`.
  static void Register(const std::string& name, PackedFunc function, bool override = false);
  /// As Register, for a callable with typed parameters.
  template <typename F>
  static void RegisterTyped(const std::string& name, F function, bool override = false) {
    Register(name, PackedFunc::FromTyped(std::move(function)), override);
  }
  /// The function, or null when there is none.
  static PackedFunc Get(const std::string& name);
  /// The function; an Error that lists similar names when there is none.
  static PackedFunc Require(const std::string& name);
  /// Whether there was one to remove.
  static bool Remove(const std::string& name);
  /// All names, sorted.
  static std::vector<std::string> ListNames();
};

}  // namespace treadle::runtime
