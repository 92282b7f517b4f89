// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/kernels.h"

#include <mutex>

#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/problems.h"
#include "targets/cpu/machine_costs.h"
#include "targets/cpu/measure_calibration.h"
#include "treadle/runtime/registry.h"

namespace treadle::ops::cpu {

// Generated from the names of the files at configure time (cmake/TreadleLibrary.cmake).
#define CPU_KERNEL(Name) void Register##Name();
#include "cpu_kernels.inc"
#undef CPU_KERNEL

Problem MakeProblem(const relay::CallNode* call, const relay::LayoutArgs& args, const Machine& machine) {
  const auto* op = call->op.as<OpNode>();
  if (op == nullptr) return Problem();
  if (op->name == "nn.conv2d") return ConvProblem(call, args, machine);
  if (op->name == "qnn.contrib_conv2d") return ByteConvProblem(call, args);
  if (op->name == "nn.conv2d_transpose") return ConvTransposeProblem(call, args);
  if (op->name == "nn.attention") return AttentionProblem(call, args);
  if (op->name == "qnn.contrib_lstm") return ByteRecurrentProblem(call, args, machine);
  if (op->name == "nn.lstm" || op->name == "nn.gru") return RecurrentProblem(call, args);
  if (op->name == "nn.dense" || op->name == "nn.matmul" || op->name == "nn.batch_matmul") {
    return MatmulProblem(call, args);
  }
  return Problem();
}

namespace {

double CyclesOf(std::string name, std::string problem, std::string target, std::string plan) {
  const Kernel* kernel = schedule::FindKernel(name);
  if (kernel == nullptr) throw Error(StrCat("there is no kernel '", name, "'"));
  const Problem p = schedule::ProblemFromJson(problem);
  const Machine machine = MachineOf(Target(target));
  const Plan chosen = schedule::PlanFromJson(plan);
  if (chosen->type_info() != kernel->plan_type) throw Error(StrCat(chosen->type_key(), " is no plan of ", name));
  const std::string reason = kernel->why_not_plan ? kernel->why_not_plan(p, machine, chosen) : "";
  if (!reason.empty()) throw Error(StrCat(name, ": ", reason));
  return kernel->cycles ? kernel->cycles(p, machine, chosen) : -1.0;
}

/// For scripts and tests, with problems and plans as JSON.
void RegisterFunctions() {
  using runtime::Registry;
  Registry::RegisterTyped("schedule.ListKernels", [](std::string op) {
    Array<String> names;
    for (const Kernel* kernel : schedule::KernelsOf(op, "cpu")) names.push_back(kernel->name);
    return names;
  });
  Registry::RegisterTyped("schedule.Plans", [](std::string name, std::string problem, std::string target) {
    const Kernel* kernel = schedule::FindKernel(name);
    if (kernel == nullptr) throw Error(StrCat("there is no kernel '", name, "'"));
    Array<String> plans;
    if (!kernel->space) return plans;
    for (const Plan& plan : kernel->space(schedule::ProblemFromJson(problem), MachineOf(Target(target)))) {
      plans.push_back(schedule::ToJson(plan));
    }
    return plans;
  });
  Registry::RegisterTyped("schedule.Cycles", CyclesOf);
  Registry::RegisterTyped("schedule.FittedCosts", FittedCostsJson);
  Registry::RegisterTyped("schedule.MeasureClock", targets::MeasureClock);
  Registry::RegisterTyped("schedule.CyclesWith", [](std::string name, std::string problem, std::string target,
                                                    std::string plan, std::string costs) {
    const FittedCosts fitted = FittedCostsWith(costs);
    const FittedCostsScope scope(fitted);
    return CyclesOf(name, problem, target, plan);
  });
}

}  // namespace

void RegisterKernels() {
  static std::once_flag once;
  std::call_once(once, [] {
    schedule::RegisterScheduleOptions();
    // Problems are read from records before any was made.
    ConvProblemNode::StaticTypeInfo();
    MatmulProblemNode::StaticTypeInfo();
    AttentionProblemNode::StaticTypeInfo();
#define CPU_KERNEL(Name) Register##Name();
#include "cpu_kernels.inc"
#undef CPU_KERNEL
    RegisterFunctions();
  });
}

}  // namespace treadle::ops::cpu
