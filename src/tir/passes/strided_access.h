// SPDX-License-Identifier: Apache-2.0
// How the accesses of a function move through memory while its loops run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tir/passes/passes.h"
#include "treadle/tir/function.h"

namespace treadle::tir {

/// One load or store of a function in low-level form.
struct StridedAccess {
  Buffer buffer;
  bool is_store = false;
  Var loop;  ///< the innermost loop around the access
  ForKind kind = ForKind::kSerial;
  std::optional<int64_t> stride;  ///< elements from one iteration to the next; null: not constant
};

/// All accesses inside loops, in order. A stride of 0 is a value that the loop doesn't change, 1 (or -1) runs through
/// memory without gaps; others, and those not constant, cost a vectorised loop one access per lane.
std::vector<StridedAccess> AnalyzeStridedAccesses(const PrimFunc& func);

/// One line per access: "loop j vectorize: loads A with stride 4".
std::string DescribeStridedAccesses(const PrimFunc& func);

/// Vectors of elements far from each other, neighbours of which are needed, too, are read as rows and transposed.
PrimFunc TransposeLoads(PrimFunc func, const LowerConfig& config);

}  // namespace treadle::tir
