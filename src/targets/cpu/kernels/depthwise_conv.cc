// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution on channel-blocked activations: a window over each channel by itself. Little is computed per
// element, so the padded input of some rows is made just before its use and doesn't go through memory.
#include "ops/change_layout.h"
#include "ops/infer.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/rooms.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/compute.h"

namespace treadle::ops::cpu {
namespace {

using te::Tensor;
using te::Var;

constexpr const char* kName = "conv2d.depthwise";

/// data: (N, C/b, H, W, b), kernel: (C/b, 1, KH, KW, b). Result: (N, C/b, OH, OW, b).
Array<Tensor> DepthwiseCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const auto* type = out_type.as<TensorTypeNode>();
  Tensor data = PadSpatial(inputs[0], NormalizePadding(a->padding, 2, true), kName);
  Tensor kernel = inputs[1];
  const Problem problem = Make<Problem, ConvProblemNode>([&](auto& p) {
    SetBlockedSizes(a, inputs[0]->shape, type->shape, &p);
    p.kh = DimValue(kernel->shape[2]);
    p.kw = DimValue(kernel->shape[3]);
    p.dtype = inputs[0]->dtype;
    p.weight_dtype = kernel->dtype;
    p.out_dtype = type->dtype;
  });
  te::IterVar kh = te::ReduceAxis(tir::Range(kernel->shape[2]), "kh");
  te::IterVar kw = te::ReduceAxis(tir::Range(kernel->shape[3]), "kw");
  DataType dtype = type->dtype;
  return {te::Compute(type->shape,
                      [&](const Array<Var>& i) {
                        PrimExpr value =
                            data(i[0], i[1], PrimExpr(i[2]) * a->strides[0] + PrimExpr(kh->var) * a->dilation[0],
                                 PrimExpr(i[3]) * a->strides[1] + PrimExpr(kw->var) * a->dilation[1], i[4]);
                        PrimExpr weight = kernel(i[1], PrimExpr(int64_t{0}), kh->var, kw->var, i[4]);
                        return te::Sum(tir::cast(dtype, value) * tir::cast(dtype, weight), {kh, kw});
                      },
                      "depthwise_conv2d_NCHWc", "depthwise_conv2d_NCHWc", AnchorAttrs(kName, "sum", problem),
                      {"n", "c", "oh", "ow", "ci"})};
}

class DepthwisePlanNode : public PlanNode {
 public:
  int64_t oh_block = 1, tile_ow = 1;
  TREADLE_NODE(DepthwisePlanNode, PlanNode, "schedule.DepthwisePlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("oh_block", &DepthwisePlanNode::oh_block).Doc("rows of outputs whose padded input is made at a time");
    r.Field("tile_ow", &DepthwisePlanNode::tile_ow).Doc("neighbouring outputs in registers");
  }
};

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<ConvProblemNode>();
  return {Make<Plan, DepthwisePlanNode>([&](auto& plan) {
    plan.oh_block = RowsAtOnce(p.oh);
    plan.tile_ow = ChooseTile(p.ow, p.oc_block, 1, machine).width;
  })};
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<DepthwisePlanNode>();
  if (plan.oh_block < 1 || (p.oh >= 0 && plan.oh_block > p.oh)) return StrCat(plan.oh_block, " rows of ", p.oh);
  const bool fits = plan.tile_ow >= 1 && plan.tile_ow <= kMaxTileWidth && (p.ow < 0 || plan.tile_ow <= p.ow);
  return fits ? "" : StrCat("tiles of ", plan.tile_ow, " outputs of ", p.ow);
}

void Apply(Schedule& sch, Stages& stages, const Problem&, const Machine&, const Plan& chosen) {
  const auto& plan = *chosen.as<DepthwisePlanNode>();
  const BlockRV output = OutputOf(sch, stages);
  ScheduleChannelWindow(sch, stages.anchor(), output, stages.Find("pad"), plan.oh_block, plan.tile_ow);
}

std::optional<relay::LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan&) {
  const auto& p = *problem.as<ConvProblemNode>();
  const relay::CallNode* call = request.call;
  const std::string& layout = p.in_layout;
  const std::string kernel_layout = StrCat("OIHW", relay::BlockOf(layout), "o");
  relay::Expr weight = relay::Constant(PadOutputChannels(call->args[1].as<relay::ConstantNode>()->data, layout));
  auto attrs = MakeObject<Conv2DAttrs>(
      *BlockedAttrs(call->attrs.as<Conv2DAttrs>(), layout, kernel_layout, layout).as<Conv2DAttrs>());
  attrs->groups = static_cast<decltype(attrs->groups)>(relay::ChannelsIn(layout, p.oc));
  static const Op op = Op::Get("nn.contrib_depthwise_conv2d_NCHWc");
  return relay::LaidOutCall{
      relay::Call(op, {request.args.Get(0, layout), LayoutTransform(weight, "OIHW", kernel_layout)},
                  Attrs(ObjectPtr<Object>(attrs)), {}, call->span),
      layout};
}

}  // namespace

void RegisterDepthwiseConv() {
  OpRegistration("nn.contrib_depthwise_conv2d_NCHWc").Set(kCompute, FTECompute(DepthwiseCompute));
  Kernel kernel;
  kernel.name = kName;
  kernel.op = "nn.conv2d";
  kernel.target = "cpu";
  kernel.plan_type = DepthwisePlanNode::StaticTypeInfo();
  kernel.why_not = [](const Problem& problem, const Machine&) -> std::string {
    const auto& p = *problem.as<ConvProblemNode>();
    if (!p.not_blocked.empty()) return p.not_blocked;
    if (!p.is_depthwise()) return "not one channel in each group";
    return p.in_layout.empty() ? StrCat(p.oc, " channels fill too little of their blocks") : "";
  };
  kernel.space = Space;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  kernel.apply = Apply;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
