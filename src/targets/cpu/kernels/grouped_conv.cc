// SPDX-License-Identifier: Apache-2.0
// Grouped convolutions with several channels per group (float32), computed as in direct_conv.cc on channel blocks that
// belong to one group. A plan decides what concerns the graph: how many groups are merged into one, and the blocks.
// conv2d.direct plans and costs the loops.
#include <algorithm>

#include "ir/accuracy.h"
#include "targets/cpu/kernels/conv_compute.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/kernels.h"

namespace treadle::ops::cpu {

using relay::ConstantNode;
using relay::LaidOutCall;

namespace {

/// Most groups that become one.
constexpr int64_t kMaxMerged = 4;

class GroupedConvPlanNode : public PlanNode {
 public:
  int64_t merged = 1, ic_block = 8, ic_groups = 1, oc_block = 8;
  bool ic_shuffled = false;
  TREADLE_NODE(GroupedConvPlanNode, PlanNode, "schedule.GroupedConvPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("merged", &GroupedConvPlanNode::merged)
        .Doc("groups that become one, with zeros in the weight between them");
    r.Field("ic_block", &GroupedConvPlanNode::ic_block).Doc("channels of a block of the input");
    r.Field("ic_groups", &GroupedConvPlanNode::ic_groups)
        .Doc("groups of the input's channels with blocks of their own");
    r.Field("ic_shuffled", &GroupedConvPlanNode::ic_shuffled)
        .Doc("channels of the input are shuffled over these groups");
    r.Field("oc_block", &GroupedConvPlanNode::oc_block).Doc("channels of a block of the result");
  }
  ChannelLayout In() const { return {ic_block, ic_groups, ic_shuffled}; }
  /// Every group of the result has blocks of its own.
  ChannelLayout Out(const ConvProblemNode& p) const {
    const int64_t groups = p.groups / merged;
    return {oc_block, p.oc / groups % oc_block == 0 ? 1 : groups};
  }
  /// Whether blocks of the input are those of the weight; else where each channel lies is looked up.
  bool WholeBlocks(const ConvProblemNode& p) const {
    return In().is_in_order() && p.ic / (p.groups / merged) % ic_block == 0;
  }
};

/// How many groups, taken as one, have whole blocks of outputs; 0 where too many zeros would be multiplied.
int64_t GroupsToMerge(const ConvProblemNode& p) {
  for (int64_t count : {2, 4}) {
    const int64_t groups = p.groups / count;
    if (p.groups % count == 0 && p.ic / groups % 8 == 0 && p.oc / groups % 8 == 0) return count;
  }
  return 0;
}

/// The weight of `groups` groups, `count` of which become one: zeros between channels of different ones.
runtime::NDArray MergeGroups(const runtime::NDArray& weight, int64_t groups, int64_t count) {
  std::vector<int64_t> shape(weight.shape().begin(), weight.shape().end());
  const int64_t row = shape[1] * shape[2] * shape[3], outputs = shape[0] / groups;
  runtime::NDArray result =
      runtime::NDArray::Empty({shape[0], shape[1] * count, shape[2], shape[3]}, DataType::Float(32));
  const auto* from = weight.Data<float>();
  auto* to = result.Data<float>();
  std::fill(to, to + result.size(), 0.0F);
  for (int64_t o = 0; o < shape[0]; ++o) {
    const int64_t place = o / outputs % count;
    std::copy(from + o * row, from + (o + 1) * row, to + (o * count + place) * row);
  }
  return result;
}

// ---- Plans and what they cost ----

Plan MakePlan(int64_t merged, const ChannelLayout& in, int64_t oc_block) {
  return Make<Plan, GroupedConvPlanNode>([&](auto& plan) {
    plan.merged = merged;
    plan.ic_block = in.block;
    plan.ic_groups = in.groups;
    plan.ic_shuffled = in.shuffled;
    plan.oc_block = oc_block;
  });
}

/// The layout in which the input exists, else one with blocks for groups, else any; plain where there is none.
ChannelLayout InputLayout(const ConvProblemNode& p, int64_t groups, int lanes) {
  ChannelLayout in = p.in_layout;
  if (in.is_plain()) in = relay::PaddedLayout(p.ic, lanes, groups);
  return in.is_plain() ? relay::PaddedLayout(p.ic, lanes) : in;
}

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<ConvProblemNode>();
  const int lanes = machine.vector_lanes(32);
  std::vector<Plan> plans;
  auto add = [&](int64_t merged, const ChannelLayout& in, int64_t oc_block) {
    if (in.is_plain() || oc_block == 0) return;
    const Plan plan = MakePlan(merged, in, oc_block);
    const std::string text = ToJson(plan);
    const bool known =
        std::any_of(plans.begin(), plans.end(), [&](const Plan& other) { return ToJson(other) == text; });
    if (!known) plans.push_back(plan);
  };
  const ChannelLayout out = relay::PaddedLayout(p.oc, lanes, p.groups);
  const int64_t first = out.is_plain() ? GroupsToMerge(p) : 1;
  // Zeros times what isn't finite would reach the other groups.
  const bool apart = transform::CurrentAccuracy() == transform::Accuracy::kStrict;
  if (first == 0 || (apart && first > 1) || InputLayout(p, p.groups / first, lanes).is_plain()) return plans;
  if (!p.is_static())
    return {MakePlan(first, InputLayout(p, p.groups / first, lanes),
                     relay::PaddedLayout(p.oc, lanes, p.groups / first).block)};
  for (int64_t merged : {first, int64_t{1}, int64_t{2}, kMaxMerged}) {
    if (p.groups % merged != 0 || (apart && merged > 1)) continue;
    const int64_t groups = p.groups / merged;
    const int64_t block = relay::PaddedLayout(p.oc, lanes, groups).block;
    add(merged, InputLayout(p, groups, lanes), block);
    add(merged, relay::PaddedLayout(p.ic, lanes, groups), block);
    add(merged, relay::PaddedLayout(p.ic, lanes), block);
    for (const int64_t other : {16, 8}) {
      if (p.oc / groups % other == 0) add(merged, InputLayout(p, groups, lanes), other);
    }
  }
  return plans;
}

/// What conv2d.direct is asked to compute then.
Problem LoopProblem(const ConvProblemNode& p, const GroupedConvPlanNode& plan) {
  auto loops = MakeObject<ConvProblemNode>(p);
  loops->groups = p.groups / plan.merged;
  loops->oc = plan.Out(p).PaddedChannels(p.oc);
  loops->oc_block = plan.oc_block;
  loops->ic_block = plan.WholeBlocks(p) ? plan.ic_block : 1;
  loops->indexed_ic = !plan.WholeBlocks(p);
  loops->data_ic = loops->indexed_ic ? plan.In().PaddedChannels(p.ic) : 0;
  return Problem(ObjectPtr<Object>(loops));
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<GroupedConvPlanNode>();
  const double loops = DefaultPlan(*schedule::FindKernel(kDirectConv), LoopProblem(p, plan), machine).cycles;
  if (loops < 0 || !p.is_static()) return -1;
  return loops + (plan.In() == p.in_layout ? 0 : LayoutChangeCycles(p, machine));
}

std::string WhyNot(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<ConvProblemNode>();
  if (!p.not_blocked.empty()) return p.not_blocked;
  if (p.groups == 1) return "one group";
  if (p.is_depthwise()) return "one channel in each group";
  if (Space(problem, machine).empty()) return StrCat(p.oc / p.groups, " channels of a group fill too little of blocks");
  // A plain row of pixels takes less time than multiplying as many zeros as numbers.
  const bool whole = relay::PaddedLayout(p.oc, machine.vector_lanes(32), p.groups).is_blocked();
  return !whole && WhyNotFlatPointwise(p).empty() ? "groups become whole blocks with zeros only" : "";
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<GroupedConvPlanNode>();
  if (plan.merged < 1 || plan.merged > kMaxMerged || p.groups % plan.merged != 0) {
    return StrCat(plan.merged, " of ", p.groups, " groups can't become one");
  }
  auto is_block = [](int64_t block) { return block == 8 || block == 16; };
  if (!is_block(plan.ic_block) || !is_block(plan.oc_block)) return "blocks are of 8 or 16 channels";
  if (plan.ic_groups < 1 || p.ic % plan.ic_groups != 0) {
    return StrCat(p.ic, " channels have no ", plan.ic_groups, " groups");
  }
  return plan.ic_shuffled && plan.In() != p.in_layout ? "the input isn't shuffled so" : "";
}

std::optional<LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<GroupedConvPlanNode>();
  runtime::NDArray weight = request.call->args[1].as<ConstantNode>()->data;
  if (plan.merged > 1) weight = MergeGroups(weight, p.groups, plan.merged);
  const ChannelLayout in = plan.In(), out = plan.Out(p);
  weight = PadOutputChannels(weight, out);
  const int64_t groups = p.groups / plan.merged;
  return plan.WholeBlocks(p) ? BlockedConv(request, weight, in, out, groups)
                             : IndexedConv(request, weight, in, out, groups);
}

}  // namespace

void RegisterGroupedConv() {
  Kernel kernel;
  kernel.name = "conv2d.grouped";
  kernel.op = "nn.conv2d";
  kernel.target = "cpu";
  kernel.plan_type = GroupedConvPlanNode::StaticTypeInfo();
  kernel.graph_fields = {"merged", "ic_block", "ic_groups", "ic_shuffled", "oc_block"};
  // Blocks decide about what follows in the graph, too: another form than that of the neighbours must pay.
  kernel.least_gain = 0.8;
  kernel.why_not = WhyNot;
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
