// SPDX-License-Identifier: Apache-2.0
// bfloat16 convolutions on channel-blocked activations (NCHW16c), accumulated in float32. A word of two neighbouring
// channels takes the place of a float (words.h), so that the computation and its schedule are those of float32
// (direct_conv.cc). Depthwise ones use the kernel of float32, which widens the data when it reads them
// (depthwise_conv.cc).
#include <algorithm>

#include "ops/infer.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/conv_compute.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/kernels.h"
#include "targets/cpu/kernels/word_conv.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/mac_count.h"
#include "treadle/tir/pair_ops.h"

namespace treadle::ops::cpu {
namespace {

using relay::ConstantNode;
using relay::LaidOutCall;

constexpr int64_t kPair = 2;
const DataType kHalf = DataType::BFloat(16), kSum = DataType::Float(32);

Type PairConvInfer(const InferContext& context) { return WordConvInfer(context, kHalf, kPair, kSum); }

/// data (N, IC/ib, H, W, ib) bfloat16; weight (OC/ob, IC/ib, KH, KW, ib/2, ob) words of two input channels. Result:
/// (N, OC/ob, OH, OW, ob) float32.
Array<Tensor> PairConvCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const TensorTypeNode* type = OutTensor(out_type);
  const Tensor& kernel = inputs[1];
  const Tensor data = PadSpatial(inputs[0], NormalizePadding(a->padding, 2), kDirectConv);
  const Problem problem = WordConvProblem(a, inputs[0], kernel, type);
  const ConvReduceAxes axes(a, kernel);
  auto term = [&](const Tensor& from, const PrimExpr& n, const PrimExpr& oc, const PrimExpr& row,
                  const PrimExpr& column, const PrimExpr& lane) {
    const PrimExpr ib = axes.InputBlock(oc), at = PrimExpr(axes.ii->var) * Index(kPair);
    const PrimExpr word = tir::pack_pair(from(n, ib, row, column, at), from(n, ib, row, column, at + 1));
    return tir::dot_pairs(word, axes.Weight(kernel, oc, lane));
  };
  return DirectConvSums(problem, a, data, kernel, type, axes, term);
}

// ---- Kernels ----

std::string WhyNot(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<ConvProblemNode>();
  if (!p.not_pairs.empty()) return p.not_pairs;
  return p.is_depthwise() ? "one channel in each group" : WhyNotGroups(p, machine);
}

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  return WordConvSpace(*problem.as<ConvProblemNode>(), kPair, machine);
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  return WhyNotWordConvPlan(*problem.as<ConvProblemNode>(), kPair, chosen);
}

std::optional<LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<WordConvPlanNode>();
  const auto* call = request.call;
  const runtime::NDArray& weight = call->args[1].as<ConstantNode>()->data;
  const ChannelLayout in{plan.ic_block}, out{plan.oc_block};
  const int64_t groups = p.groups / plan.merged;
  const bool few = FewChannels(p, kPair) == plan.ic_block;
  const relay::Expr data =
      few ? ChannelsAsWords(request.args.Plain(0), p.ic, in.block, p.dtype) : request.args.Get(0, in);
  const Attrs attrs =
      WordConvAttrs(call->attrs.as<Conv2DAttrs>(), weight, in, out, out.PaddedChannels(p.oc), groups, kSum);
  const Array<relay::Expr> operands{
      data, relay::Constant(PackedConvWords<uint16_t>(weight, in.block, out.block, groups, plan.merged))};
  return LaidOutCall{relay::Call(Op::Get("nn.contrib_conv2d_NCHWc_pairs"), operands, attrs, {}, call->span), out};
}

// ---- Windows over one channel: bfloat16 in memory, float32 in registers ----

ChannelLayout DepthwiseLayout(const ConvProblemNode& p, const Machine& machine) {
  return p.in_layout.is_blocked() ? p.in_layout : BlockedLayout(p.oc, machine.vector_lanes(32));
}

std::string WhyNotDepthwise(const Problem& problem, const Machine&) {
  const auto& p = *problem.as<ConvProblemNode>();
  if (!p.not_pairs.empty()) return p.not_pairs;
  return p.is_depthwise() ? "" : "not one channel in each group";
}

std::vector<Plan> DepthwiseSpace(const Problem& problem, const Machine& machine) {
  const int64_t block = DepthwiseLayout(*problem.as<ConvProblemNode>(), machine).block;
  return {MakeWordConvPlan(1, block, block)};
}

std::string WhyNotDepthwisePlan(const Problem&, const Machine&, const Plan& chosen) {
  const auto& plan = *chosen.as<WordConvPlanNode>();
  const bool fits = plan.merged == 1 && plan.ic_block == plan.oc_block && (plan.oc_block == 8 || plan.oc_block == 16);
  return fits ? "" : "the blocks of the input are those of the result, of 8 or 16 channels";
}

/// `weight` (C, 1, KH, KW) as (C/b, 1, KH, KW, b).
runtime::NDArray BlockedTaps(const runtime::NDArray& weight, const ChannelLayout& layout) {
  const std::vector<int64_t>& shape = weight.shape();
  const int64_t taps = shape[2] * shape[3], block = layout.block;
  const int64_t blocks = layout.PaddedChannels(shape[0]) / block;
  runtime::NDArray result = runtime::NDArray::Empty({blocks, 1, shape[2], shape[3], block}, kHalf);
  auto* to = result.Data<uint16_t>();
  std::fill(to, to + result.size(), uint16_t{0});
  const auto* from = weight.Data<uint16_t>();
  for (int64_t c = 0; c < shape[0]; ++c) {
    for (int64_t t = 0; t < taps; ++t) to[(c / block * taps + t) * block + c % block] = *from++;
  }
  return result;
}

std::optional<LaidOutCall> RewriteDepthwise(const LayoutRequest& request, const Problem& problem, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto* call = request.call;
  const ChannelLayout layout{chosen.as<WordConvPlanNode>()->oc_block};
  auto attrs = MakeObject<Conv2DAttrs>(
      *BlockedAttrs(call->attrs.as<Conv2DAttrs>(), layout, BlockedKernelLayout(0, layout.block), layout)
           .as<Conv2DAttrs>());
  attrs->groups = static_cast<decltype(attrs->groups)>(layout.PaddedChannels(p.oc));
  const Array<relay::Expr> operands{request.args.Get(0, layout),
                                    relay::Constant(BlockedTaps(call->args[1].as<ConstantNode>()->data, layout))};
  return LaidOutCall{relay::Call(Op::Get("nn.contrib_depthwise_conv2d_NCHWc"), operands,
                                 Attrs(ObjectPtr<Object>(attrs)), {}, call->span),
                     layout};
}

}  // namespace

void RegisterPairConv() {
  OpRegistration("nn.contrib_conv2d_NCHWc_pairs")
      .Describe("Convolution of channel-blocked bfloat16, in float32.")
      .Arguments({{"data", "Tensor", "bfloat16, in data_layout"},
                  {"weight", "Tensor", "(OC/ob, IC/groups/ib, KH, KW, ib/2, ob) words of two bfloat16"}})
      .AttrsType<Conv2DAttrs>()
      .SupportLevel(11)
      .Relation(Rule<PairConvInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(PackedConvMacs))
      .Set(kCompute, FTECompute(PairConvCompute));
  Kernel conv = WordConvKernel("conv2d.pairs", "nn.conv2d", kDirectConv);
  conv.why_not = WhyNot;
  conv.space = Space;
  conv.why_not_plan = WhyNotPlan;
  conv.rewrite = Rewrite;
  schedule::RegisterKernel(std::move(conv));
  Kernel depthwise = WordConvKernel("conv2d.depthwise_bfloat16", "nn.conv2d", kDepthwiseConv);
  depthwise.why_not = WhyNotDepthwise;
  depthwise.space = DepthwiseSpace;
  depthwise.why_not_plan = WhyNotDepthwisePlan;
  depthwise.rewrite = RewriteDepthwise;
  schedule::RegisterKernel(std::move(depthwise));
}

}  // namespace treadle::ops::cpu
