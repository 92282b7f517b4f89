// SPDX-License-Identifier: Apache-2.0
// The kernels of CPUs. Each is one file of this folder, with its preconditions, computation, plans, their costs, and
// the schedule that applies a plan (docs/add-a-kernel.md).
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "targets/cpu/fitted_costs.h"
#include "targets/cpu/schedule/cpu.h"
#include "treadle/schedule/kernel.h"
#include "treadle/schedule/problems.h"

namespace treadle::ops::cpu {

using schedule::AnchorAttrs;
using schedule::AttentionProblemNode;
using schedule::ConvProblemNode;
using schedule::Kernel;
using schedule::LayoutRequest;
using schedule::Machine;
using schedule::Make;
using schedule::MatmulProblemNode;
using schedule::Plan;
using schedule::PlanNode;
using schedule::Problem;
using schedule::StageAttrs;
using schedule::Stages;

/// Threads that costs are modelled for: plans for more make parts so small that most networks lose more by them than
/// they gain (bench/thread_scaling.py).
inline int64_t ModelledThreads(const Machine& machine) { return std::clamp<int64_t>(machine.num_cores, 1, 16); }

/// Cycles that beginning and ending a parallel loop takes: the launcher writes to each thread, and waits for it, in
/// turn.
inline double ForkJoinCycles(const Machine& machine, int64_t threads) {
  return machine.fork_join_cycles + Fitted().fork_join_further * static_cast<double>(std::max<int64_t>(0, threads - 2));
}

/// The problem that a call states; null where CPUs have no kernels for its operator.
Problem MakeProblem(const relay::CallNode* call, const relay::LayoutArgs& args, const Machine& machine);

/// Registers the kernels and their operators; those without a model of costs are preferred in the order of that list.
void RegisterKernels();

}  // namespace treadle::ops::cpu
