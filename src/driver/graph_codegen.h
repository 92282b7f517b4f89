// SPDX-License-Identifier: Apache-2.0
// From the optimised main function to the graph that the graph executor runs.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "driver/memory_plan.h"
#include "treadle/relay/expr.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::driver {

/// Graph JSON (fields: nodes, arg_nodes, heads, node_row_ptr, attrs) and the constants it names.
struct ExecutorGraph {
  std::string json;
  std::vector<std::pair<std::string, runtime::NDArray>> params;  ///< "p0", "p1", .. in order of first use
};

/// Gives the symbol of the kernel that implements a fused (or external) function.
using KernelSymbol = std::function<std::string(const relay::Function&)>;

/// `main` is typed and static; each call in it is of a function with attribute Primitive or Compiler. Something else
/// (If, references, nested closures, operators that weren't fused) is an Error that names it.
/// `plan` holds the storage of each expression of `main`, as `planner` made it.
ExecutorGraph GenerateGraph(const relay::Function& main, const MemoryPlan& plan, MemoryPlanner planner,
                            const KernelSymbol& kernel_symbol);

}  // namespace treadle::driver
