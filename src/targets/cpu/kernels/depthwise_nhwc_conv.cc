// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions with channels last, as networks of tokens have them (graph/channels_last.cc): float32 or,
// widened when read, bfloat16. Pixels lie far apart, so that some lines of each are read at a time: of these channels
// the padded input of a few rows is written just before its use and stays in the L1 cache.
#include <algorithm>

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

constexpr const char* kName = "conv2d.depthwise_nhwc";

/// data: (N, H, W, C), kernel: (KH, KW, C, 1). Result: (N, OH, OW, C), C a multiple of 8.
Array<Tensor> DepthwiseNhwcCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
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
      PadSpatial(Widened(inputs[0], type->dtype), NormalizePadding(a->padding, 2, true), kName, PrimExpr(), 1);
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
                      AnchorAttrs(kName, "sum", problem), {"n", "oh", "ow", "c"})};
}

class DepthwiseNhwcPlanNode : public PlanNode {
 public:
  int64_t oh_block = 1, tile_ow = 1, channels = 8;
  TREADLE_NODE(DepthwiseNhwcPlanNode, PlanNode, "schedule.DepthwiseNhwcPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("oh_block", &DepthwiseNhwcPlanNode::oh_block).Doc("rows of outputs whose padded input is made at a time");
    r.Field("tile_ow", &DepthwiseNhwcPlanNode::tile_ow).Doc("neighbouring outputs in registers");
    r.Field("channels", &DepthwiseNhwcPlanNode::channels).Doc("channels whose padded input is made at a time");
  }
};

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
std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
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
        plans.push_back(Make<Plan, DepthwiseNhwcPlanNode>([&](auto& plan) {
          plan.oh_block = r;
          plan.tile_ow = width;
          plan.channels = c;
        }));
      }
    }
  }
  return plans;
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<DepthwiseNhwcPlanNode>();
  if (plan.oh_block < 1 || (p.oh >= 0 && plan.oh_block > p.oh)) return StrCat(plan.oh_block, " rows of ", p.oh);
  const bool fits = plan.tile_ow >= 1 && plan.tile_ow <= kMaxTileWidth && (p.ow < 0 || plan.tile_ow <= p.ow);
  if (!fits) return StrCat("tiles of ", plan.tile_ow, " outputs of ", p.ow);
  const bool divides = plan.channels >= p.oc_block && plan.channels % p.oc_block == 0 && p.oc % plan.channels == 0;
  return divides ? "" : StrCat(plan.channels, " channels of ", p.oc);
}

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& plan = *chosen.as<DepthwiseNhwcPlanNode>();
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

}  // namespace

void RegisterDepthwiseNhwcConv() {
  OpRegistration(kDepthwiseConvNhwc).Set(kCompute, FTECompute(DepthwiseNhwcCompute));
  Kernel kernel;
  kernel.name = kName;
  kernel.op = kDepthwiseConvNhwc;
  kernel.target = "cpu";
  kernel.plan_type = DepthwiseNhwcPlanNode::StaticTypeInfo();
  kernel.space = Space;
  kernel.why_not_plan = WhyNotPlan;
  kernel.apply = Apply;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
