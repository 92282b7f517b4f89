// SPDX-License-Identifier: Apache-2.0
// nn.conv2d_transpose (NCHW, float32) as convolutions. Outputs whose positions are equal modulo the stride, a phase,
// use the same taps of the kernel. One convolution computes all phases with the same number of taps as channels, and
// its result is interleaved. If the kernel size isn't a multiple of the stride, phases have two numbers of taps in that
// dimension: filling up the short ones with zero weights would turn infinities into NaN, and cost multiplications.
#include <algorithm>
#include <cmath>

#include "ops/change_layout.h"
#include "ops/conv.h"
#include "ops/infer.h"
#include "targets/cpu/kernels/conv_compute.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/problems.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/make.h"

namespace treadle::ops::cpu {
namespace {

using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using relay::LaidOutCall;
using runtime::NDArray;

/// Sizes of one; arrays are vertical, horizontal; -1 where they are dynamic.
struct Sizes {
  int64_t batch, in_channels, out_channels;
  int64_t in[2], out[2], kernel[2], stride[2], pad[2], taps[2];
  /// Rows or columns that are cut off the phases at the end.
  int64_t cut[2];
  /// Rows or columns of one phase.
  int64_t Steps(int d) const { return in[d] + taps[d] - 1; }
  int64_t Phases() const { return stride[0] * stride[1]; }
  bool is_static = true;
};

/// Phases of one number of taps; arrays are vertical, horizontal.
struct PhaseGroup {
  int64_t first[2], count[2], taps[2];
  int64_t Phases() const { return count[0] * count[1]; }
};

/// One group, or two for each dimension in which the kernel isn't a multiple of the stride, rows of phases first.
std::vector<PhaseGroup> GroupsOf(const int64_t (&kernel)[2], const int64_t (&stride)[2]) {
  struct Part {
    int64_t first, count, taps;
  };
  std::vector<Part> parts[2];
  for (size_t d = 0; d < 2; ++d) {
    const int64_t longer = kernel[d] % stride[d], taps = kernel[d] / stride[d];
    if (longer > 0) parts[d].push_back({0, longer, taps + 1});
    parts[d].push_back({longer, stride[d] - longer, taps});
  }
  std::vector<PhaseGroup> groups;
  for (const Part& y : parts[0]) {
    for (const Part& x : parts[1]) groups.push_back({{y.first, x.first}, {y.count, x.count}, {y.taps, x.taps}});
  }
  return groups;
}

/// The sizes, or nothing with the reason in `why_not`.
std::optional<Sizes> SizesOf(const CallNode* call, const relay::LayoutArgs& args, std::string* why_not) {
  auto refuse = [why_not](const char* reason) -> std::optional<Sizes> {
    *why_not = reason;
    return std::nullopt;
  };
  const auto* a = call->attrs.as<ConvTransposeAttrs>();
  if (a == nullptr || call->args[1].as<ConstantNode>() == nullptr) return refuse("the weight isn't constant");
  const auto *data = args.Type(0), *kernel = args.Type(1), *out = call->type_as<TensorTypeNode>();
  const NDArray& weight = call->args[1].as<ConstantNode>()->data;
  const bool nchw = (a->IsIn("NCHW", "IOHW") || a->IsIn("NCHW", "OIHW")) && data->shape.size() == 4;
  if (!nchw) return refuse("the model's layouts aren't NCHW and IOHW");
  if (a->groups != 1) return refuse("several groups");
  if (AsConstInt(data->shape[1]) == nullptr || !IsStatic(kernel)) return refuse("the number of channels is dynamic");
  if (data->dtype != DataType::Float(32) || out->dtype != data->dtype) return refuse("the data aren't float32");
  const auto* w = weight.Data<float>();
  if (!std::all_of(w, w + weight.size(), [](float x) { return std::isfinite(x); }))
    return refuse("weights are infinite");
  Sizes s{DimValue(data->shape[0]),
          DimValue(data->shape[1]),
          DimValue(out->shape[1]),
          {},
          {},
          {},
          {},
          {},
          {},
          {},
          IsStatic(data)};
  std::vector<int64_t> pads = NormalizePadding(a->padding, 2, true);
  for (size_t d = 0; d < 2; ++d) {
    s.in[d] = DimValue(data->shape[2 + d]);
    s.out[d] = DimValue(out->shape[2 + d]);
    s.kernel[d] = DimValue(kernel->shape[2 + d]);
    s.stride[d] = a->strides[d];
    s.pad[d] = pads[d];
    s.taps[d] = CeilDiv(s.kernel[d], s.stride[d]);
    const int64_t added = a->output_padding[a->output_padding.size() == 1 ? 0 : d];
    s.cut[d] = s.stride[d] * s.taps[d] - s.kernel[d] - added + pads[2 + d];
    // What isn't cut out of the phases would have to be made: negative padding, or output_padding beyond them.
    const bool inside = s.pad[d] >= 0 && s.cut[d] >= 0;
    if (a->dilation[d] != 1) return refuse("the kernel is dilated");
    if (s.kernel[d] < s.stride[d]) return refuse("the kernel is smaller than the stride");
    if (!inside || s.in[d] == 0) return refuse("outputs lie outside of the phases of its stride");
  }
  return s;
}

/// Channels of a convolution with those that pad blocks: outputs of all its phases, inputs, outputs of one phase.
struct PhaseChannels {
  int64_t all, inputs, outputs;
};

/// The weight (IC, OC, KH, KW) as that of a group's convolution: (channels, IC, taps), where channel p * OC + oc is the
/// group's phase p of output channel oc; further channels are zero.
NDArray PhaseKernel(const NDArray& weight, const Sizes& s, const PhaseGroup& group, const PhaseChannels& channels) {
  NDArray result = NDArray::Empty({channels.all, channels.inputs, group.taps[0], group.taps[1]}, DataType::Float(32));
  auto* to = result.Data<float>();
  const auto* from = weight.Data<float>();
  std::fill(to, to + result.size(), 0.0F);
  // What one phase of one pair of channels has.
  auto fill = [&](int64_t phase_y, int64_t phase_x, const float* window, float* taps) {
    for (int64_t y = 0; y < group.taps[0]; ++y) {
      for (int64_t x = 0; x < group.taps[1]; ++x) {
        const int64_t row = group.first[0] + phase_y + (group.taps[0] - 1 - y) * s.stride[0];
        const int64_t column = group.first[1] + phase_x + (group.taps[1] - 1 - x) * s.stride[1];
        *taps++ = window[row * s.kernel[1] + column];
      }
    }
  };
  for (int64_t phase = 0; phase < group.Phases(); ++phase) {
    for (int64_t oc = 0; oc < s.out_channels; ++oc) {
      for (int64_t ic = 0; ic < s.in_channels; ++ic) {
        fill(phase / group.count[1], phase % group.count[1],
             from + (ic * s.out_channels + oc) * s.kernel[0] * s.kernel[1],
             to + ((phase * channels.outputs + oc) * channels.inputs + ic) * group.taps[0] * group.taps[1]);
      }
    }
  }
  return result;
}

// ---- Plans and what they cost ----

class ConvTransposePlanNode : public PlanNode {
 public:
  int64_t ic_block = 0, oc_block = 8;
  bool blocked_result = true;
  TREADLE_NODE(ConvTransposePlanNode, PlanNode, "schedule.ConvTransposePlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("ic_block", &ConvTransposePlanNode::ic_block).Doc("channels of a block of the input; 0: plain");
    r.Field("oc_block", &ConvTransposePlanNode::oc_block)
        .Doc("channels of a block of the phases; 0: input, phases and result are plain, computed along rows");
    r.Field("blocked_result", &ConvTransposePlanNode::blocked_result)
        .Doc("phases have blocks of their own, in which the result stays; else it is plain");
  }
  ChannelLayout In() const { return {ic_block}; }
  ChannelLayout Result() const { return blocked_result ? ChannelLayout{oc_block} : ChannelLayout(); }
  bool IsByRows() const { return oc_block == 0; }
  /// Channels of the convolution. Those of a result that has no blocks go to the next block with zeros.
  PhaseChannels Channels(int64_t ic, int64_t oc, int64_t phases) const {
    const int64_t each = Result().PaddedChannels(oc);
    const int64_t all = IsByRows() ? phases * each : RoundUp(phases * each, oc_block);
    return {all, In().PaddedChannels(ic), each};
  }
};

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  constexpr int64_t kBlock = 16, kHalfBlock = 8, kFewChannels = 16, kVeryFewChannels = 4;
  const auto& p = *problem.as<ConvProblemNode>();
  const int lanes = machine.vector_lanes(32);
  const ChannelLayout out = relay::PaddedLayout(p.oc, lanes);
  const bool exists = p.in_layout.is_blocked() && p.in_layout.is_in_order();
  const ChannelLayout in = exists ? p.in_layout : relay::PaddedLayout(p.ic, lanes);
  std::vector<std::pair<int64_t, bool>> results{{out.is_plain() ? kHalfBlock : out.block, out.is_blocked()}};
  std::vector<int64_t> inputs{in.block};
  // Of dynamic sizes nothing says which is faster.
  if (p.is_static()) {
    for (const int64_t block : {kBlock, kHalfBlock}) {
      if (block != in.block && p.ic % block == 0) inputs.push_back(block);
      for (const bool blocked : {true, false}) {
        const bool fits = !blocked || p.oc % block == 0;
        if (fits && results.front() != std::pair(block, blocked)) results.emplace_back(block, blocked);
      }
    }
  }
  std::vector<Plan> plans;
  auto add = [&](int64_t input, int64_t block, bool blocked) {
    plans.push_back(Make<Plan, ConvTransposePlanNode>([&](auto& plan) {
      plan.ic_block = input;
      plan.oc_block = block;
      plan.blocked_result = blocked;
    }));
  };
  // The last layer of a generator or of a detector of text has one output channel, or three.
  const int64_t channels = p.oc * p.stride_h * p.stride_w;
  const bool by_rows = channels <= (p.is_static() ? kFewChannels : kVeryFewChannels);
  if (by_rows && !p.is_static() && !exists) {
    add(0, 0, false);
    return plans;
  }
  for (const auto& [block, blocked] : results) {
    for (const int64_t input : inputs) add(input, block, blocked);
  }
  if (by_rows && p.is_static()) add(0, 0, false);
  return plans;
}

/// That of the convolution that computes the phases of a group, as conv2d.direct is asked for it.
Problem PhaseProblem(const ConvProblemNode& p, const PhaseGroup& group, const ConvTransposePlanNode& plan) {
  return Make<Problem, ConvProblemNode>([&](auto& phases) {
    const PhaseChannels channels = plan.Channels(p.ic, p.oc, group.Phases());
    phases.batch = p.batch;
    phases.ic = channels.inputs;
    phases.oc = channels.all;
    phases.ic_block = plan.ic_block;
    phases.oc_block = plan.oc_block;
    phases.ih = p.ih;
    phases.iw = p.iw;
    phases.kh = group.taps[0];
    phases.kw = group.taps[1];
    phases.oh = p.ih + CeilDiv(p.kh, p.stride_h) - 1;
    phases.ow = p.iw + CeilDiv(p.kw, p.stride_w) - 1;
    phases.pad_t = phases.kh - 1;
    phases.pad_l = phases.kw - 1;
    phases.pad_b = phases.oh - p.ih;
    phases.pad_r = phases.ow - p.iw;
  });
}

/// The same where it is computed along rows.
Problem RowProblem(const ConvProblemNode& phases) {
  return Make<Problem, RowConvProblemNode>([&](auto& rows) {
    rows.batch = phases.batch;
    rows.ic = phases.ic;
    rows.ih = phases.ih + phases.pad_t + phases.pad_b;
    rows.iw = phases.iw + phases.pad_l + phases.pad_r;
    rows.oc = phases.oc;
    rows.oh = phases.oh;
    rows.ow = phases.ow;
    rows.kh = phases.kh;
    rows.kw = phases.kw;
  });
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<ConvTransposePlanNode>();
  if (!p.is_static()) return -1;
  double sums = 0, elements = 0;
  for (const PhaseGroup& group : GroupsOf({p.kh, p.kw}, {p.stride_h, p.stride_w})) {
    const Problem phases = PhaseProblem(p, group, plan);
    const Problem asked = plan.IsByRows() ? RowProblem(*phases.as<ConvProblemNode>()) : phases;
    const char* kernel = plan.IsByRows() ? kRowConv : kDirectConv;
    const double cycles = DefaultPlan(*schedule::FindKernel(kernel), asked, machine).cycles;
    if (cycles < 0) return -1;
    const auto& s = *phases.as<ConvProblemNode>();
    sums += cycles;
    elements += static_cast<double>(std::max<int64_t>(1, p.batch) * s.oc * s.oh * s.ow);
  }
  // Interleaving loads phases and stores results, of plain ones number by number.
  const double store = plan.blocked_result ? 0 : machine.load_cycles;
  const double moved =
      elements * (store + 2 * static_cast<double>(p.dtype.bytes()) * machine.beyond_l2_cycles_per_byte);
  return sums + moved + (plan.In() == p.in_layout ? 0 : LayoutChangeCycles(p, machine));
}

std::string WhyNotPlan(const Problem&, const Machine&, const Plan& chosen) {
  const auto& plan = *chosen.as<ConvTransposePlanNode>();
  auto is_block = [](int64_t block) { return block == 8 || block == 16; };
  if (plan.IsByRows() && (plan.ic_block != 0 || plan.blocked_result)) return "rows are of plain channels";
  const bool fits = (plan.ic_block == 0 || is_block(plan.ic_block)) && (plan.IsByRows() || is_block(plan.oc_block));
  return fits ? "" : "blocks are of 8 or 16 channels";
}

/// What Rewrite makes the phases of: the call's operands and the plan's layouts.
struct PhaseConvs {
  const CallNode* call;
  const Sizes& s;
  const ConvTransposePlanNode& plan;
  Expr data;  ///< in plan.In()

  /// The convolution of a group: (N, phase and channel, H, W[, block]) in blocks of the plan.
  Expr Convolve(const PhaseGroup& group) const {
    const ChannelLayout in = plan.In(), out{plan.oc_block};
    const std::string kernel_layout = plan.IsByRows() ? "OIHW" : BlockedKernelLayout(in.block, out.block);
    Attrs attrs = MakeAttrs<Conv2DAttrs>([&](auto& conv) {
      conv.padding = {group.taps[0] - 1, group.taps[1] - 1, s.taps[0] - 1, s.taps[1] - 1};
      conv.data_layout = in.axes();
      conv.kernel_layout = kernel_layout;
      conv.out_layout = out.axes();
    });
    const PhaseChannels channels = plan.Channels(s.in_channels, s.out_channels, group.Phases());
    const NDArray& weight = call->args[1].as<ConstantNode>()->data;
    Expr kernel = relay::Constant(PhaseKernel(weight, s, group, channels));
    static const Op blocked = Op::Get("nn.contrib_conv2d_NCHWc"), plain = Op::Get("nn.conv2d");
    if (plan.IsByRows()) return relay::Call(plain, {data, kernel}, attrs, {}, call->span);
    return relay::Call(blocked, {data, LayoutTransform(kernel, "OIHW", kernel_layout)}, attrs, {}, call->span);
  }

  /// The phases of a group, with dimensions of their own: (N, PH, PW, C, H, W[, block]).
  Expr Phases(const PhaseGroup& group) const {
    Expr phases = Convolve(group);
    const ChannelLayout layout = plan.Result();
    int64_t channels = s.out_channels;
    if (layout.is_blocked()) {
      channels = layout.PaddedChannels(s.out_channels) / layout.block;
    } else if (!plan.IsByRows()) {
      phases = LayoutTransform(phases, ChannelLayout{plan.oc_block}.axes(), "NCHW");
      phases = MakeStridedSlice(phases, {0}, {group.Phases() * s.out_channels}, {1}, std::vector<int64_t>{1});
    }
    if (s.is_static) {
      std::vector<int64_t> shape{s.batch, group.count[0], group.count[1], channels, s.Steps(0), s.Steps(1)};
      if (layout.is_blocked()) shape.push_back(layout.block);
      return MakeReshape(phases, shape);
    }
    phases = Reshaped(phases, {0, -4, group.count[0], group.count[1] * channels, 0, 0});
    return Reshaped(phases, {0, 0, -4, group.count[1], channels, 0, 0});
  }

  /// By codes, which split and join single dimensions: indices of dynamic sizes stay simple.
  Expr Reshaped(const Expr& e, std::vector<int64_t> codes) const {
    if (plan.Result().is_blocked()) codes.push_back(0);
    return MakeReshape(e, codes);
  }

  /// The result, from the phases interleaved: (N, C, H, PH, W, PW[, block]).
  Expr Whole() const {
    const ChannelLayout layout = plan.Result();
    std::vector<int64_t> order{0, 3, 4, 1, 5, 2};
    if (layout.is_blocked()) order.push_back(6);
    Expr phases = MakeTranspose(Joined(), order);
    if (!s.is_static) return Crop(Reshaped(Reshaped(phases, {0, 0, -3, 0, 0}), {0, 0, 0, -3}));
    std::vector<int64_t> shape{s.batch, s.out_channels, s.stride[0] * s.Steps(0), s.stride[1] * s.Steps(1)};
    if (layout.is_blocked()) {
      shape[1] = layout.PaddedChannels(s.out_channels) / layout.block;
      shape.push_back(layout.block);
    }
    return Crop(MakeReshape(phases, shape));
  }

  /// Without the padding and what lies beyond the result. `data` may have dynamic sizes.
  Expr Crop(Expr data) const {
    const size_t rank = plan.Result().is_blocked() ? 5 : 4;
    for (size_t d = 0; d < 2; ++d) {
      if (s.pad[d] != 0 || s.cut[d] != 0) data = MakeCrop(data, rank, 2 + d, {s.pad[d], s.cut[d]}, call->span);
    }
    return data;
  }

  /// All phases, joined by columns of phases, then by rows.
  Expr Joined() const {
    const std::vector<PhaseGroup> groups = GroupsOf(s.kernel, s.stride);
    Array<Expr> rows;
    for (size_t i = 0; i < groups.size();) {
      Array<Expr> columns;
      for (const int64_t row = groups[i].first[0]; i < groups.size() && groups[i].first[0] == row; ++i) {
        columns.push_back(Phases(groups[i]));
      }
      rows.push_back(columns.size() == 1 ? columns[0] : MakeConcatenate(columns, 2));
    }
    return rows.size() == 1 ? rows[0] : MakeConcatenate(rows, 1);
  }
};

std::optional<LaidOutCall> Rewrite(const LayoutRequest& request, const Problem&, const Plan& chosen) {
  const CallNode* call = request.call;
  std::string why_not;
  auto sizes = SizesOf(call, request.args, &why_not);
  if (!sizes) return std::nullopt;
  const Sizes& s = *sizes;
  const auto& plan = *chosen.as<ConvTransposePlanNode>();
  const PhaseConvs convs{call, s, plan, request.args.Get(0, plan.In())};
  return LaidOutCall{convs.Whole(), plan.Result()};
}

}  // namespace

Problem ConvTransposeProblem(const relay::CallNode* call, const relay::LayoutArgs& args) {
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    auto sizes = SizesOf(call, args, &p.not_blocked);
    if (!sizes) return;
    const Sizes& s = *sizes;
    p.in_layout = args.LayoutOf(0);
    p.batch = s.batch;
    p.ic = s.in_channels;
    p.ih = s.in[0];
    p.iw = s.in[1];
    p.oc = s.out_channels;
    p.oh = s.out[0];
    p.ow = s.out[1];
    p.kh = s.kernel[0];
    p.kw = s.kernel[1];
    p.stride_h = s.stride[0];
    p.stride_w = s.stride[1];
    p.pad_t = s.pad[0];
    p.pad_l = s.pad[1];
  });
}

void RegisterConvTranspose() {
  Kernel kernel;
  kernel.name = "conv2d_transpose.phases";
  kernel.op = "nn.conv2d_transpose";
  kernel.target = "cpu";
  kernel.plan_type = ConvTransposePlanNode::StaticTypeInfo();
  kernel.graph_fields = {"ic_block", "oc_block", "blocked_result"};
  // Blocks decide about what follows in the graph, too: another form than that of the neighbours must pay.
  kernel.least_gain = 0.8;
  kernel.why_not = [](const Problem& problem, const Machine&) { return problem.as<ConvProblemNode>()->not_blocked; };
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  schedule::RegisterKernel(std::move(kernel));
  Kernel plain;
  plain.name = "conv2d_transpose.plain";
  plain.op = "nn.conv2d_transpose";
  plain.target = "cpu";
  plain.level = schedule::kPlainLevel;
  schedule::RegisterKernel(std::move(plain));
}

}  // namespace treadle::ops::cpu
