// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions on channel-blocked activations (NCHW16c), float32 or, widened when read, bfloat16: one filter
// per channel. There is little computation per element, so the padded input of a few rows is written just before its
// use and stays in cache.
#include <algorithm>
#include <cmath>

#include "ops/change_layout.h"
#include "ops/infer.h"
#include "targets/cpu/kernels/conv_compute.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/kernels.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/compute.h"

namespace treadle::ops::cpu {
namespace {

using te::Tensor;
using te::Var;

constexpr const char* kName = kDepthwiseConv;

/// data: (N, C/b, H, W, b), kernel: (C/b, 1, KH, KW, b). Result: (N, C/b, OH, OW, b).
Array<Tensor> DepthwiseCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const auto* type = out_type.as<TensorTypeNode>();
  CheckBlocked(inputs[0], inputs[1], type, true);
  Tensor data = PadSpatial(Widened(inputs[0], type->dtype), NormalizePadding(a->padding, 2, true), kName);
  Tensor kernel = inputs[1];
  const Problem problem =
      Make<Problem, ConvProblemNode>([&](auto& p) { SetConvProblem(a, inputs[0], kernel, type, &p); });
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

/// Bytes of several rows, for which the machine has no instruction: words of two rows are made with the padding.
bool PairsRows(const ConvProblemNode& p, const Machine& machine) {
  return p.dtype == DataType::UInt(8) && !machine.vnni && p.kh > 1 && p.dilation_h == 1;
}
/// Other bytes then: words of two taps are made in registers, of weights as well.
bool WidensInRegisters(const ConvProblemNode& p, const Machine& machine) {
  return p.dtype == DataType::UInt(8) && !machine.vnni && !PairsRows(p, machine);
}

std::vector<Plan> Space(const Problem& problem, const Machine& target) {
  constexpr int64_t kMostRows = 32;
  constexpr int kWidened = 4;  // a word of each operand and its two halves
  const auto& p = *problem.as<ConvProblemNode>();
  Machine machine = target;
  if (WidensInRegisters(p, machine)) machine.vector_registers -= kWidened;
  const int64_t first_rows = RowsAtOnce(p.oh);
  const RegisterTile tile_of_rows = p.ow < 0 ? ChooseDynamicTile(OfUsualSize(p).ow, p.oc_block, 1, machine)
                                             : ChooseTile(p.ow, p.oc_block, 1, machine);
  const int64_t first_tile = tile_of_rows.width;
  std::vector<Plan> plans;
  auto add = [&](int64_t rows, int64_t tile) {
    plans.push_back(Make<Plan, DepthwisePlanNode>([&](auto& plan) {
      plan.oh_block = rows;
      plan.tile_ow = tile;
    }));
  };
  add(first_rows, first_tile);
  if (p.oh < 0 || p.ow < 0) return plans;
  for (int64_t rows = 1; rows <= p.oh; ++rows) {
    const bool divides = p.oh % rows == 0 && rows <= kMostRows;
    if (!divides && rows != first_rows && rows != p.oh) continue;
    for (const int64_t tile : TileWidths(p.ow, p.oc_block, machine)) {
      if (rows != first_rows || tile != first_tile) add(rows, tile);
    }
  }
  return plans;
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const FittedCosts& fitted = Fitted();
  const auto& given = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<DepthwisePlanNode>();
  if (given.oc_block < 1) return -1;
  const ConvProblemNode p = OfUsualSize(given);
  constexpr double kPair = 1.33;  // multiply-adds of floats that products of a word and their sum take
  const bool pairs = PairsRows(p, machine);
  const auto rows = static_cast<double>(p.oh);
  const double taps = static_cast<double>(p.kw) * (pairs ? kPair * std::ceil(p.kh / 2.0) : static_cast<double>(p.kh));
  const double registers =
      std::ceil(static_cast<double>(p.oc_block) / std::max(1, machine.vector_lanes(32))) * static_cast<double>(p.ow);
  const RegisterTile tile{plan.tile_ow, 1};
  double row = taps * (given.ow < 0 ? DynamicRowCycles(tile, p.ow, p.oc_block, machine)
                                    : TileCycles(tile, p.ow, p.oc_block, machine)) +
               fitted.depthwise_store * registers +
               fitted.depthwise_tile * std::ceil(static_cast<double>(p.ow) / static_cast<double>(plan.tile_ow));
  if (WidensInRegisters(p, machine)) row *= fitted.depthwise_widen;
  const int64_t strips = CeilDiv(p.oh, plan.oh_block);
  const double strip =
      pairs || HasPadding(p) ? StripCycles(p, plan.oh_block, p.oc_block, pairs ? 2 : p.dtype.bytes(), machine) : 0;
  const double read = machine.beyond_l2_cycles_per_byte *
                      static_cast<double>(std::max<int64_t>(0, p.ih * p.iw) * p.oc_block * p.dtype.bytes());
  const int64_t blocks = p.oc / p.oc_block, batch = std::max<int64_t>(1, p.batch);
  const double alone = static_cast<double>(batch * blocks) * (rows * row + static_cast<double>(strips) * strip + read);
  const int64_t threads = ModelledThreads(machine);
  const double last = static_cast<double>(p.oh - (strips - 1) * plan.oh_block) / static_cast<double>(plan.oh_block);
  return alone * (1 + LoadImbalance(strips, last, blocks, batch, threads)) / 2;
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<DepthwisePlanNode>();
  if (plan.oh_block < 1 || (p.oh >= 0 && plan.oh_block > p.oh)) return StrCat(plan.oh_block, " rows of ", p.oh);
  const bool fits = plan.tile_ow >= 1 && plan.tile_ow <= kMaxTileWidth && (p.ow < 0 || plan.tile_ow <= p.ow);
  return fits ? "" : StrCat("tiles of ", plan.tile_ow, " outputs of ", p.ow);
}

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine& machine, const Plan& chosen) {
  const auto& plan = *chosen.as<DepthwisePlanNode>();
  const BlockRV output = OutputOf(sch, stages);
  ScheduleChannelWindow(sch, stages.anchor(), output, stages.Find("pad"), plan.oh_block, plan.tile_ow);
  if (!WidensInRegisters(*problem.as<ConvProblemNode>(), machine)) return;
  // Outputs share columns, which are widened once where all taps are written out.
  const LoopRV columns = AxisLoops(sch, stages.anchor()).back();
  if (columns.defined()) sch.Unroll(columns);
}

std::optional<relay::LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan&) {
  const auto& p = *problem.as<ConvProblemNode>();
  const relay::CallNode* call = request.call;
  const ChannelLayout& layout = p.in_layout;
  const std::string kernel_layout = BlockedKernelLayout(0, layout.block);
  relay::Expr weight = relay::Constant(PadOutputChannels(call->args[1].as<relay::ConstantNode>()->data, layout));
  auto attrs = MakeObject<Conv2DAttrs>(
      *BlockedAttrs(call->attrs.as<Conv2DAttrs>(), layout, kernel_layout, layout).as<Conv2DAttrs>());
  attrs->groups = static_cast<decltype(attrs->groups)>(layout.PaddedChannels(p.oc));
  static const Op op = Op::Get("nn.contrib_depthwise_conv2d_NCHWc");
  return relay::LaidOutCall{
      relay::Call(op, {request.args.Get(0, layout), LayoutTransform(weight, "OIHW", kernel_layout)},
                  Attrs(ObjectPtr<Object>(attrs)), {}, call->span),
      layout, relay::PaddingUse::kApart};
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
    return p.in_layout.is_plain() ? StrCat(p.oc, " channels fill too little of their blocks") : "";
  };
  kernel.least_gain = 0.95;
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  kernel.apply = Apply;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
