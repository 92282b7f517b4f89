// SPDX-License-Identifier: Apache-2.0
// A function that runs a whole graph: its kernels one after the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "treadle/ir/target.h"

namespace treadle::targets {

/// `int __treadle_main__(void* const* data)`: 0, or the number (from 1) of the call that failed.
inline constexpr const char* kMainFunction = "__treadle_main__";

/// A call of a kernel's unchecked form, <symbol>__raw (RawFunction), whose data pointers are data[first_arg] and
/// following.
struct MainCall {
  std::string symbol;
  int64_t first_arg;
};

/// A relocatable object that defines kMainFunction for the calls in this order; their kernels are undefined in it.
std::string MakeMainObject(const std::vector<MainCall>& calls, const Target& target);
/// The same as C99.
std::string MakeMainSource(const std::vector<MainCall>& calls);

}  // namespace treadle::targets
