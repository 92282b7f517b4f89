// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions on channel-blocked activations (NCHW16c), or with channels last where a network of tokens has
// them so (graph/channels_last.cc); float32 or, widened when read, bfloat16: one filter per channel. There is little
// computation per element, so the padded input of a few rows is written just before its use and stays in cache.
#include <algorithm>
#include <cmath>

#include "ops/change_layout.h"
#include "ops/infer.h"
#include "ops/te_util.h"
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
constexpr const char* kLastName = "conv2d.depthwise_last";

/// Elements of 16 bits are widened once, where padding makes a copy, rather than for each tap.
Tensor Widened(const Tensor& data, DataType dtype) {
  if (data->dtype == dtype) return data;
  return Compute(
      data->shape, [&](const Array<PrimExpr>& i) { return tir::cast(dtype, data(i)); }, "widened", tag::kInjective);
}

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

/// data: (N, H, W, C), kernel: (KH, KW, C, 1). Result: (N, OH, OW, C), C a multiple of 8.
Array<Tensor> ChannelsLastCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const auto* type = out_type.as<TensorTypeNode>();
  const Tensor& kernel = inputs[1];
  const int64_t block = relay::DividingLayout(DimValue(type->shape[3])).block;
  const bool fits = a->IsIn("NHWC", "HWOI") && block != 0 && tir::is_one(kernel->shape[3]) &&
                    DimValue(inputs[0]->shape[3]) == DimValue(type->shape[3]);
  if (!fits) {
    throw ShapeError(
        StrCat("needs data in NHWC, weights in HWOI, and a filter for each of channels that divide by 8; data: ",
               ShapeText(inputs[0]->shape), ", weight: ", ShapeText(kernel->shape)));
  }
  const Tensor data =
      PadSpatial(Widened(inputs[0], type->dtype), NormalizePadding(a->padding, 2, true), kLastName, PrimExpr(), 1);
  const Problem problem = Make<Problem, ConvProblemNode>([&](auto& p) {
    auto blocked = [&](const Array<PrimExpr>& shape) {
      return Array<PrimExpr>{shape[0], Dim(DimValue(shape[3]) / block), shape[1], shape[2], Dim(block)};
    };
    SetBlockedSizes(a, blocked(inputs[0]->shape), blocked(type->shape), &p);
    p.kh = DimValue(kernel->shape[0]);
    p.kw = DimValue(kernel->shape[1]);
    p.dtype = inputs[0]->dtype;
    p.weight_dtype = kernel->dtype;
    p.out_dtype = type->dtype;
  });
  const te::IterVar kh = te::ReduceAxis(tir::Range(kernel->shape[0]), "kh"),
                    kw = te::ReduceAxis(tir::Range(kernel->shape[1]), "kw");
  auto product = [&](const Array<Var>& i) {
    const PrimExpr row = PrimExpr(i[1]) * a->strides[0] + PrimExpr(kh->var) * a->dilation[0],
                   column = PrimExpr(i[2]) * a->strides[1] + PrimExpr(kw->var) * a->dilation[1];
    const PrimExpr value = data(i[0], row, column, i[3]), weight = kernel(kh->var, kw->var, i[3], PrimExpr(int64_t{0}));
    return te::Sum(tir::cast(type->dtype, value) * tir::cast(type->dtype, weight), {kh, kw});
  };
  return {te::Compute(type->shape, product, "depthwise_conv2d_NHWC", "depthwise_conv2d_NHWC",
                      AnchorAttrs(kLastName, "sum", problem), {"n", "oh", "ow", "c"})};
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

class DepthwiseLastPlanNode : public DepthwisePlanNode {
 public:
  int64_t channels = 8;
  TREADLE_NODE(DepthwiseLastPlanNode, DepthwisePlanNode, "schedule.DepthwiseLastPlan")
  template <typename R>
  static void Reflect(R& r) {
    DepthwisePlanNode::Reflect(r);
    r.Field("channels", &DepthwiseLastPlanNode::channels).Doc("channels whose padded input is made at a time");
  }
};

/// Widths of register tiles: for each number of tiles that a row can be divided into, the smallest.
std::vector<int64_t> TileWidths(int64_t width, int64_t channels, const Machine& machine) {
  std::vector<int64_t> widths;
  for (int64_t t = std::min(width, kMaxTileWidth); t >= 1; --t) {
    if (!FitsRegisters({t, 1}, channels, machine)) continue;
    const int64_t count = CeilDiv(width, t), smallest = CeilDiv(width, count);
    if (widths.empty() || widths.back() != smallest) widths.push_back(smallest);
  }
  return widths;
}

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

// ---- Channels last ----

/// Rows of outputs whose padded input, of so many channels, the L1 cache holds; at least two, whose windows overlap.
int64_t RowsInL1(const ConvProblemNode& p, int64_t channels, const Machine& machine) {
  constexpr int64_t kLeast = 2;
  const int64_t row = (p.iw + p.pad_l + p.pad_r) * channels * p.out_dtype.bytes();
  int64_t rows = std::min(p.oh, kLeast);
  auto read = [&](int64_t outputs) { return (outputs - 1) * p.stride_h + (p.kh - 1) * p.dilation_h + 1; };
  while (rows < p.oh && read(rows + 1) * row <= machine.l1_bytes) ++rows;
  return CeilDiv(p.oh, CeilDiv(p.oh, rows));
}

/// The first plan reads some lines of each pixel at a time, which lie side by side: pixels lie apart.
std::vector<Plan> LastSpace(const Problem& problem, const Machine& machine) {
  constexpr int64_t kUsualChannels = 32, kMostChannels = 256, kMostRows = 32;
  const auto& p = *problem.as<ConvProblemNode>();
  const bool dynamic = p.oh < 0 || p.ow < 0 || p.iw < 0;
  std::vector<int64_t> widths, channels;
  if (dynamic) {
    widths = {ChooseDynamicTile(OfUsualSize(p).ow, p.oc_block, 1, machine).width};
  } else {
    widths = TileWidths(p.ow, p.oc_block, machine);
    const int64_t best = ChooseTile(p.ow, p.oc_block, 1, machine).width;
    std::erase(widths, best);
    widths.insert(widths.begin(), best);
  }
  for (int64_t c = p.oc_block; c <= std::min(p.oc, kMostChannels); c += p.oc_block) {
    if (p.oc % c == 0) channels.insert(c <= kUsualChannels ? channels.begin() : channels.end(), c);
  }
  std::vector<Plan> plans;
  for (const int64_t c : channels) {
    const int64_t usual = RowsInL1(dynamic ? OfUsualSize(p) : p, c, machine);
    std::vector<int64_t> rows{usual};
    for (int64_t r = 1; !dynamic && r <= std::min(p.oh, kMostRows); ++r) {
      if (p.oh % r == 0 && r != usual) rows.push_back(r);
    }
    for (const int64_t r : rows) {
      for (const int64_t width : widths) {
        plans.push_back(Make<Plan, DepthwiseLastPlanNode>([&](auto& plan) {
          plan.oh_block = r;
          plan.tile_ow = width;
          plan.channels = c;
        }));
      }
    }
  }
  return plans;
}

std::string WhyNotLastPlan(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const int64_t channels = chosen.as<DepthwiseLastPlanNode>()->channels;
  const bool divides = channels >= p.oc_block && channels % p.oc_block == 0 && p.oc % channels == 0;
  return divides ? WhyNotPlan(problem, machine, chosen) : StrCat(channels, " channels of ", p.oc);
}

void ApplyLast(Schedule& sch, Stages& stages, const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& plan = *chosen.as<DepthwiseLastPlanNode>();
  const int64_t block = problem.as<ConvProblemNode>()->oc_block;
  const BlockRV sum = stages.anchor(), pad = stages.Find("pad");
  const double work = Work(sch, sum);
  const std::vector<LoopRV> out = sch.GetLoops(OutputOf(sch, stages));
  TREADLE_ICHECK(out.size() == 4) << "results with channels last have four loops";
  const std::vector<LoopRV> rows = sch.Split(out[1], {kRest, PrimExpr(plan.oh_block)});
  const std::vector<LoopRV> width = sch.Split(out[2], {kRest, PrimExpr(plan.tile_ow)});
  const std::vector<LoopRV> channels = sch.Split(out[3], {kRest, PrimExpr(plan.channels / block), PrimExpr(block)});
  sch.Reorder({rows[0], channels[0], rows[1], width[0], channels[1], width[1], channels[2]});
  ComputeTileOfRows(sch, sum, channels[1], width[1], {2}, 3);
  sch.Vectorize(channels[2]);
  if (pad.defined()) {
    sch.ComputeAt(pad, channels[0]);
    sch.Vectorize(sch.Split(AxisLoops(sch, pad).back(), {kRest, PrimExpr(block)})[1]);
  }
  FuseParallel(sch, {out[0], rows[0], channels[0]}, work);
}

// ---- The graph ----

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

  OpRegistration(kDepthwiseConvLast).Set(kCompute, FTECompute(ChannelsLastCompute));
  Kernel last;
  last.name = kLastName;
  last.op = kDepthwiseConvLast;
  last.target = "cpu";
  last.plan_type = DepthwiseLastPlanNode::StaticTypeInfo();
  last.space = LastSpace;
  last.why_not_plan = WhyNotLastPlan;
  last.apply = ApplyLast;
  schedule::RegisterKernel(std::move(last));
}

}  // namespace treadle::ops::cpu
