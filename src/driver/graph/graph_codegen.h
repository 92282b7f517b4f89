// SPDX-License-Identifier: Apache-2.0
// From the optimised main function to the graph that the graph executor runs.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "driver/graph/branches.h"
#include "driver/memory/memory_plan.h"
#include "treadle/relay/expr.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::driver {

/// Graph JSON (fields: nodes, arg_nodes, heads, node_row_ptr, attrs) and the constants it names.
struct ExecutorGraph {
  std::string json;
  std::vector<std::pair<std::string, runtime::NDArray>> params;  ///< "p0", "p1", .. in order of first use
  std::map<std::string, int64_t> param_storage;                  ///< storage id of each
  /// The kernels' calls in order: symbol, and number of the first of its arguments (inputs, then outputs) among those
  /// of all calls.
  std::vector<std::pair<std::string, int64_t>> calls;
  int64_t num_call_args = 0;
  bool plain = true;          ///< no copies between devices, no external functions
  bool has_branches = false;  ///< some of which run side by side
};

/// Gives the symbol of the kernel that implements a fused (or external) function on a device (0: the default one).
using KernelSymbol = std::function<std::string(const relay::Function&, int device_type)>;

/// Whether a fused function is an operator that can write its result where its first operand lies
/// (ops::kUpdatesOperand).
bool UpdatesOperand(const relay::Function& function);

/// `main` is typed and static; each call in it is of a function with attribute Primitive or Compiler. Something else
/// (If, references, nested closures, operators that weren't fused) is an Error that names it.
/// `plan` holds the storage of each expression of `main`, as `planner` made it. Values that the plan assigns to no
/// device are on `default_device` (DLDeviceType). Calls that only copy between devices become "__copy", those that only
/// give their operand another shape "__nop". Calls of `branches` run side by side; the plan takes that into account.
ExecutorGraph GenerateGraph(const relay::Function& main, const MemoryPlan& plan, MemoryPlanner planner,
                            int default_device, const KernelSymbol& kernel_symbol, const BranchNames& branches = {});

}  // namespace treadle::driver
