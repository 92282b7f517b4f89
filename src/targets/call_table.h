// SPDX-License-Identifier: Apache-2.0
// What functions that run a whole graph are made of, in any language.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "treadle/targets/target_spec.h"

namespace treadle::targets {

/// More calls than this stand in a table that a loop reads: making code for each takes longer than all else.
inline constexpr size_t kMaxInlineCalls = 2048;

/// The calls as indices into a list of kernels, each named once.
struct CallTable {
  explicit CallTable(const std::vector<MainCall>& calls) {
    std::unordered_map<std::string, uint32_t> index;
    for (const MainCall& call : calls) {
      auto [it, inserted] = index.emplace(call.symbol, static_cast<uint32_t>(kernels.size()));
      if (inserted) kernels.push_back(call.symbol);
      kernel_of.push_back(it->second);
      first_arg.push_back(static_cast<uint64_t>(call.first_arg));
    }
  }
  std::vector<std::string> kernels;
  std::vector<uint32_t> kernel_of;
  std::vector<uint64_t> first_arg;
};

}  // namespace treadle::targets
