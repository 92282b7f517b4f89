// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "treadle/runtime/graph_spec.h"

namespace treadle::runtime {

inline constexpr int64_t kMaxGraphCount = int64_t{1} << 24;  ///< of nodes, inputs and entries
inline constexpr size_t kMaxGraphRank = 64;

/// Checks what readers of all formats leave to be checked: places in the arena, one device for each storage, and calls
/// of "__nop" and "__copy". Throws ModelFormatError; `what` is named in errors.
void CheckGraph(const GraphSpec& graph, const std::string& what);

}  // namespace treadle::runtime
