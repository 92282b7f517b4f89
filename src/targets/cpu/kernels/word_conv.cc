// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/word_conv.h"

#include "ir/accuracy.h"
#include "ops/change_layout.h"
#include "targets/cpu/kernels/conv_compute.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/make.h"

namespace treadle::ops::cpu {

TREADLE_DEFINE_NODE(WordConvPlanNode);

bool KeepsZerosApart(DataType dtype) {
  return dtype.is_bfloat16() && transform::CurrentAccuracy() == transform::Accuracy::kStrict;
}

std::vector<GroupsInBlocks> BlockGroups(const ConvProblemNode& p, int lanes) {
  const int64_t groups = p.groups, inputs = p.ic / groups, outputs = p.oc / groups;
  const bool apart = KeepsZerosApart(p.dtype);
  std::vector<GroupsInBlocks> found;
  for (int64_t block : {int64_t{16}, int64_t{8}}) {
    if (block > lanes && block > 8) continue;
    for (int64_t merged : {1, 2, 4, 8, 16}) {
      if (apart && merged > 1) break;
      if (groups % merged == 0 && inputs * merged % block == 0 && outputs * merged % block == 0) {
        found.push_back({merged, block});
      }
    }
  }
  return found;
}

Problem WordConvProblem(const Conv2DAttrs* attrs, const te::Tensor& data, const te::Tensor& kernel,
                        const TensorTypeNode* type) {
  constexpr size_t kWordsRank = 6;
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    SetConvProblem(attrs, data, kernel, type, &p);
    if (kernel.ndim() == kWordsRank) {
      p.data_ic = p.ic;
      p.ic_block = DimValue(kernel->shape[4]);
      p.ic = DimValue(kernel->shape[1]) * p.ic_block * p.groups;
    }
    p.kh = (*attrs->kernel_size)[0];
    p.kw = (*attrs->kernel_size)[1];
  });
}

relay::Expr ChannelsAsWords(const relay::Expr& data, int64_t channels, int64_t block, DataType dtype) {
  relay::Expr whole = data;
  if (channels < block) {
    whole = MakePad(data, {{0, 0}, {0, block - channels}, {0, 0}, {0, 0}}, ScalarConstant(dtype, int64_t{0}));
  }
  return LayoutTransform(whole, "NCHW", StrCat("NCHW", block, "c"));
}

Plan MakeWordConvPlan(int64_t merged, int64_t ic_block, int64_t oc_block, bool of_rows) {
  return Make<Plan, WordConvPlanNode>([&](auto& plan) {
    plan.merged = merged;
    plan.ic_block = ic_block;
    plan.oc_block = oc_block;
    plan.of_rows = of_rows;
  });
}

std::optional<int64_t> FewChannels(const ConvProblemNode& p, int64_t each) {
  if (!p.in_layout.is_plain() || p.ic >= kLeastBlocked || p.groups != 1) return std::nullopt;
  return RoundUp(p.ic, each);
}

std::vector<int64_t> BlocksOf(int64_t channels) {
  return channels > 8 ? std::vector<int64_t>{8, 16} : std::vector<int64_t>{8};
}

std::vector<Plan> WithUsual(const Plan& usual, std::vector<Plan> plans) {
  std::erase_if(plans, [&](const Plan& plan) { return StructuralEqual(plan, usual); });
  plans.insert(plans.begin(), usual);
  return plans;
}

std::vector<Plan> WordConvSpace(const ConvProblemNode& p, int64_t each, const Machine& machine) {
  const int lanes = machine.vector_lanes(32);
  std::vector<Plan> plans;
  if (p.groups > 1) {
    for (const GroupsInBlocks& blocks : BlockGroups(p, lanes)) {
      plans.push_back(MakeWordConvPlan(blocks.merged, blocks.block, blocks.block));
    }
    return plans;
  }
  const std::optional<int64_t> few = FewChannels(p, each);
  const int64_t ic_block = p.in_layout.is_blocked() ? p.in_layout.block : few ? *few : BlockedLayout(p.ic, lanes).block;
  for (const int64_t in : few ? std::vector<int64_t>{*few} : BlocksOf(p.ic)) {
    for (const int64_t out : BlocksOf(p.oc)) plans.push_back(MakeWordConvPlan(1, in, out));
  }
  return WithUsual(MakeWordConvPlan(1, ic_block, BlockedLayout(p.oc, lanes).block), std::move(plans));
}

std::string WhyNotWordConvPlan(const ConvProblemNode& p, int64_t each, const Plan& chosen) {
  const auto& plan = *chosen.as<WordConvPlanNode>();
  auto is_block = [](int64_t block) { return block == 8 || block == 16; };
  const bool words = FewChannels(p, each) == plan.ic_block;
  if ((!is_block(plan.ic_block) && !words) || !is_block(plan.oc_block)) return "blocks are of 8 or 16 channels";
  if (plan.merged < 1 || p.groups % plan.merged != 0) {
    return StrCat(plan.merged, " of ", p.groups, " groups can't become one");
  }
  if (plan.merged > 1 && KeepsZerosApart(p.dtype)) return kZerosApart;
  const int64_t groups = p.groups / plan.merged;
  const bool whole = groups == 1 || (p.ic / groups % plan.ic_block == 0 && p.oc / groups % plan.oc_block == 0);
  return whole ? "" : "a block would have channels of two groups";
}

std::string WhyNotGroups(const ConvProblemNode& p, const Machine& machine) {
  const bool fits = p.groups == 1 || !BlockGroups(p, machine.vector_lanes(32)).empty();
  return fits ? "" : StrCat(p.oc / p.groups, " channels of a group don't fill blocks");
}

namespace {

double WordConvCycles(const char* loops, const Problem& problem, const Machine& machine, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<WordConvPlanNode>();
  if (!p.is_static()) return -1;
  auto asked = MakeObject<ConvProblemNode>(p);
  asked->groups = p.is_depthwise() ? p.groups : p.groups / plan.merged;
  asked->ic = ChannelLayout{plan.ic_block}.PaddedChannels(p.ic);
  asked->oc = ChannelLayout{plan.oc_block}.PaddedChannels(p.oc);
  asked->ic_block = plan.ic_block;
  asked->oc_block = plan.oc_block;
  if (p.dtype == DataType::Int(16) && !p.is_depthwise()) {  // compared with fewer products of as many words
    asked->ic /= PerWord(p.dtype);
    asked->ic_block /= PerWord(p.dtype);
    asked->data_ic = p.ic;
  }
  // Those over one channel widen what they read.
  const Machine costs = p.is_depthwise() ? machine : WithDotsOfWords(p.dtype, machine);
  return DefaultPlan(*schedule::FindKernel(loops), Problem(ObjectPtr<Object>(asked)), costs).cycles;
}

}  // namespace

Kernel WordConvKernel(const char* name, const char* op, const char* loops) {
  Kernel kernel;
  kernel.name = name;
  kernel.op = op;
  kernel.target = "cpu";
  kernel.plan_type = WordConvPlanNode::StaticTypeInfo();
  kernel.graph_fields = {"merged", "ic_block", "oc_block"};
  kernel.least_gain = 0;
  kernel.cycles = [loops](const Problem& problem, const Machine& machine, const Plan& plan) {
    return WordConvCycles(loops, problem, machine, plan);
  };
  return kernel;
}

Attrs WordConvAttrs(const Conv2DAttrs* a, const runtime::NDArray& weight, const ChannelLayout& in,
                    const ChannelLayout& out, int64_t channels, int64_t groups, DataType sum) {
  auto node = MakeObject<Conv2DAttrs>(*a);
  node->channels = channels;
  node->kernel_size = std::vector<int64_t>{weight.shape()[2], weight.shape()[3]};
  node->groups = static_cast<decltype(node->groups)>(groups);
  node->data_layout = in.axes();
  node->out_layout = out.axes();
  node->out_dtype = sum;
  return Attrs(ObjectPtr<Object>(node));
}

}  // namespace treadle::ops::cpu
