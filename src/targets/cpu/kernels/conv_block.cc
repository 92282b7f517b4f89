// SPDX-License-Identifier: Apache-2.0
// The channel block of a convolution's result, 8 or 16: a choice of layout, not of an algorithm. By default rules
// decide (ConvLayout); a tuning record may choose another block, because consumers gain by it or vectors are filled
// better.
#include <algorithm>

#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/kernels.h"
#include "treadle/base/int_math.h"
#include "treadle/schedule/alternatives.h"

namespace treadle::ops::cpu {
namespace {

constexpr int64_t kBlocks[] = {8, 16};

class ConvBlockPlanNode : public PlanNode {
 public:
  int64_t block = 8;
  TREADLE_NODE(ConvBlockPlanNode, PlanNode, "schedule.ConvBlockPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("block", &ConvBlockPlanNode::block).Doc("channels of a block of the result: 8 or 16");
  }
};

/// Channels of the result as the model has them, or up to a block more.
bool IsUnassigned(const ConvProblemNode& p) { return p.not_blocked.empty() && p.groups == 1 && p.is_static(); }

std::vector<Plan> Space(const Problem& problem, const Machine&) {
  const auto& p = *problem.as<ConvProblemNode>();
  std::vector<Plan> plans;
  for (const int64_t block : kBlocks) {
    const bool half_empty = 2 * p.oc <= block;
    if (!IsUnassigned(p) || block == p.oc_block || half_empty) continue;
    plans.push_back(Make<Plan, ConvBlockPlanNode>([&](auto& plan) { plan.block = block; }));
  }
  return plans;
}

/// Of the convolution alone: what follows in the graph may gain or lose as much.
double Cycles(const Problem& problem, const Machine& machine, const Plan& plan) {
  auto node = MakeObject<ConvProblemNode>(*problem.as<ConvProblemNode>());
  const int64_t block = plan.as<ConvBlockPlanNode>()->block;
  node->oc_block = block;
  node->oc = RoundUp(node->oc, block);
  node->weight = node->padded_weight = runtime::NDArray();  // of other channels
  const schedule::Choice choice = schedule::ChooseKernel("nn.conv2d", "cpu", Problem(ObjectPtr<Object>(node)), machine);
  return choice.best() == nullptr ? -1 : choice.best()->cycles;
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& plan) {
  if (!IsUnassigned(*problem.as<ConvProblemNode>())) return "its layout is already assigned";
  const int64_t block = plan.as<ConvBlockPlanNode>()->block;
  return std::count(std::begin(kBlocks), std::end(kBlocks), block) == 1 ? "" : "blocks are of 8 or 16 channels";
}

}  // namespace

std::optional<ChannelLayout> RecordedConvLayout(const Problem& problem, const Machine& machine) {
  if (!schedule::HasRecordedPlans()) return std::nullopt;
  const schedule::Candidate choice = schedule::ChoosePlan(*schedule::FindKernel("conv2d.block"), problem, machine);
  if (!choice.recorded) return std::nullopt;
  return ChannelLayout{choice.plan.as<ConvBlockPlanNode>()->block};
}

void RegisterConvBlock() {
  Kernel kernel;
  kernel.name = "conv2d.block";
  kernel.op = schedule::LayoutsOf("nn.conv2d");
  kernel.target = "cpu";
  kernel.plan_type = ConvBlockPlanNode::StaticTypeInfo();
  kernel.graph_fields = {"block"};
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
