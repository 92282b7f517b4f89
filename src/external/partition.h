// SPDX-License-Identifier: Apache-2.0
// Gives parts of a graph to external code generators, and says what went where and why.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "treadle/external/codegen.h"

namespace treadle::external {

/// Decides on a region; "" keeps it with the external code generator, else the reason to take it back.
using RegionJudge = std::function<std::string(const Function& region)>;

/// The result of Partition as text: regions with their operators, nodes that stay with Treadle with the reason of each
/// code generator.
struct PartitionReport {
  std::string text;
  int regions = 0;
  int offloaded = 0;  ///< calls of operators that went to external code generators
  int kept = 0;
};

/// `names` are tried in order. Throws TargetError for a name that doesn't exist (listing those that do) or that can't
/// be used here, Error that names the code generator when its predicate, pattern or preprocessing fails.
/// The regions' functions stay global; relay::transform::Inline makes them the callees that executors expect.
IRModule Partition(IRModule module, const std::vector<std::string>& names, const RegionJudge& judge,
                   PartitionReport* report);

/// `module` with the bodies of the given global functions back in place of their calls, composite functions in them
/// dissolved.
IRModule TakeBack(IRModule module, const std::vector<std::string>& symbols);

}  // namespace treadle::external
