// SPDX-License-Identifier: Apache-2.0
// Winograd's method for 8-bit 3 x 3 convolutions whose data were widened to int16: exact, in int32. The transforms are
// scaled to whole numbers (winograd_transform.h), sums may wrap modulo 2^32, and the factor that remains is divided out
// exactly. Where the machine can only multiply pairs of 16-bit integers (vpmaddwd), transformed operands cost no more
// than bytes, and F(4 x 4, 3 x 3) needs a quarter of the multiplications.
#include <algorithm>

#include "ops/infer.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/kernels.h"
#include "targets/cpu/kernels/weight_forms.h"
#include "targets/cpu/kernels/winograd_compute.h"
#include "targets/cpu/kernels/winograd_transform.h"
#include "targets/cpu/kernels/word_conv.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/ir/transform.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/mac_count.h"

namespace treadle::ops::cpu {
namespace {

constexpr const char* kOp = "qnn.contrib_conv2d_winograd_NCHWc";
constexpr int64_t kPair = 2;
const DataType kShort = DataType::Int(16), kSum = DataType::Int(32);

// ---- The computation ----

/// 1 / (3 * 3) modulo 2^32: kOddFactor of both dimensions.
constexpr uint32_t kOddInverse = 954437177;
static_assert(kOddInverse * static_cast<uint32_t>(kOddFactor * kOddFactor) == 1);

/// `value` without the factors that the transforms of whole numbers have left.
PrimExpr WithoutFactors(int64_t side, const PrimExpr& value, const PrimExpr& y, const PrimExpr& x) {
  if (side == kStridedSide) return value;
  std::vector<PrimExpr> shifts;
  for (int64_t shift : WholeShifts(side)) shifts.push_back(tir::make_const(kSum, shift));
  const PrimExpr odd = side == 6 ? value * tir::make_const(kSum, static_cast<int64_t>(kOddInverse)) : value;
  return tir::right_shift(odd, ChooseUnrolled(y, shifts) + ChooseUnrolled(x, shifts));
}

/// data: (N, IC/ib, H, W, ib) int16; weight: see WholeWinogradWeight; what pads hold. Result: (N, OC/ob, OH, OW, ob)
/// int32.
Array<Tensor> Compute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const auto* type = out_type.as<TensorTypeNode>();
  const Tensor &data = inputs[0], &weight = inputs[1];
  auto problem = MakeObject<ConvProblemNode>(*WinogradLoopsProblem(a, data, weight, type).as<ConvProblemNode>());
  problem->dtype = problem->weight_dtype = kShort;
  problem->out_dtype = kSum;
  const int64_t side = problem->winograd_side;
  const WinogradElements elements{inputs[2](Array<PrimExpr>{}),
                                  [](const auto& input, const PrimExpr& part, const PrimExpr& words) {
                                    const PrimExpr first = part * Index(kPair);
                                    return tir::dot_shorts(tir::pack_shorts(input(first), input(first + 1)), words);
                                  },
                                  WholeOutputTransform<PrimExpr>,
                                  [side](const PrimExpr& value, const PrimExpr& y, const PrimExpr& x) {
                                    return WithoutFactors(side, value, y, x);
                                  }};
  return WinogradSums(a, data, weight, type, Problem(ObjectPtr<Object>(problem)), elements);
}

Type Infer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  if (data->dtype != kShort) throw DTypeError(StrCat("data must be int16, not ", data->dtype));
  const auto *weight = context.Tensor(1, "weight"), *pad = context.Tensor(2, "pad_value");
  if (weight->dtype != kSum) throw DTypeError(StrCat("weight must be words, int32, not ", weight->dtype));
  CheckRank(pad, 0, "pad_value");
  CheckSameDType(data, pad);
  return WinogradType(context, kPair, kSum);
}

// ---- The kernel ----

class ByteWinogradPlanNode : public PlanNode {
 public:
  int64_t side = 6, ic_block = 8, oc_block = 8;
  TREADLE_NODE(ByteWinogradPlanNode, PlanNode, "schedule.ByteWinogradPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("side", &ByteWinogradPlanNode::side).Doc("inputs per side of a tile: 4 or 6, 5 for stride 2");
    r.Field("ic_block", &ByteWinogradPlanNode::ic_block).Doc("channels of a block of the input");
    r.Field("oc_block", &ByteWinogradPlanNode::oc_block).Doc("channels of a block of the result");
  }
};

std::vector<int64_t> SidesOf(const ConvProblemNode& p) {
  return p.stride_h == 2 ? std::vector<int64_t>{kStridedSide} : std::vector<int64_t>{6, 4};
}

/// Of a problem without its weight (from a script) any may be.
bool IsExact(const ConvProblemNode& p, int64_t side) {
  if (!p.weight.defined()) return true;
  return WeightForms::Measure(p.weight, StrCat("whole winograd ", side),
                              [&] { return std::vector<double>{HoldsWholeSums(p.weight, side) ? 1.0 : 0.0}; })[0] == 1;
}

std::string WhyNot(const Problem& problem, const Machine&) {
  constexpr int64_t kMinChannels = 16;
  const auto& p = *problem.as<ConvProblemNode>();
  if (!p.not_blocked.empty()) return p.not_blocked;
  if (p.dtype != kShort) return StrCat("the data are ", p.dtype, ", not int16");
  if (!p.of_bytes) return "the data may be wider than bytes";
  if (std::string reason = WhyNotWinogradWindow(p); !reason.empty()) return reason;
  if (!p.is_static()) return "the image's size is dynamic";
  if (p.ic < kMinChannels || p.oc < kMinChannels) return StrCat("fewer than ", kMinChannels, " channels");
  if (!transform::PassContext::Current()->GetConfigBool(kWinogradOption, true)) {
    return StrCat(kWinogradOption, " is off");
  }
  const std::vector<int64_t> sides = SidesOf(p);
  const bool exact = std::any_of(sides.begin(), sides.end(), [&](int64_t side) { return IsExact(p, side); });
  return exact ? "" : "sums may exceed 32 bits";
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<ByteWinogradPlanNode>();
  auto asked = MakeObject<ConvProblemNode>(p);
  asked->ic = ChannelLayout{plan.ic_block}.PaddedChannels(p.ic) / kPair;
  asked->oc = ChannelLayout{plan.oc_block}.PaddedChannels(p.oc);
  asked->ic_block = plan.ic_block;
  asked->oc_block = plan.oc_block;
  asked->winograd_side = plan.side;
  return DefaultPlan(*schedule::FindKernel(kWinogradConv), Problem(ObjectPtr<Object>(asked)), machine).cycles;
}

/// Those of the usual blocks first, of them the side that costs least.
std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<ConvProblemNode>();
  const int lanes = machine.vector_lanes(32);
  const int64_t in = p.in_layout.is_blocked() ? p.in_layout.block : BlockedLayout(p.ic, lanes).block;
  std::vector<Plan> plans;
  auto add = [&](int64_t side, int64_t ic_block, int64_t oc_block) {
    plans.push_back(Make<Plan, ByteWinogradPlanNode>([&](auto& plan) {
      plan.side = side;
      plan.ic_block = ic_block;
      plan.oc_block = oc_block;
    }));
  };
  for (const int64_t side : SidesOf(p)) {
    if (IsExact(p, side)) add(side, in, BlockedLayout(p.oc, lanes).block);
  }
  if (plans.empty()) return plans;
  const Plan usual = *std::min_element(plans.begin(), plans.end(), [&](const Plan& a, const Plan& b) {
    return Cycles(problem, machine, a) < Cycles(problem, machine, b);
  });
  plans.clear();
  for (const int64_t side : SidesOf(p)) {
    if (!IsExact(p, side)) continue;
    for (const int64_t ic_block : BlocksOf(p.ic)) {
      for (const int64_t oc_block : BlocksOf(p.oc)) add(side, ic_block, oc_block);
    }
  }
  return WithUsual(usual, std::move(plans));
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<ByteWinogradPlanNode>();
  const std::vector<int64_t> sides = SidesOf(p);
  if (std::find(sides.begin(), sides.end(), plan.side) == sides.end()) return StrCat("no form has side ", plan.side);
  auto is_block = [](int64_t block) { return block == 8 || block == 16; };
  if (!is_block(plan.ic_block) || !is_block(plan.oc_block)) return "blocks are of 8 or 16 channels";
  return IsExact(p, plan.side) ? "" : "sums may exceed 32 bits";
}

std::optional<relay::LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<ByteWinogradPlanNode>();
  const ChannelLayout in{plan.ic_block}, out{plan.oc_block};
  const relay::Expr weight =
      WeightForms::Get(p.weight, StrCat("whole winograd ", plan.side, " ", in.block, " ", out.block),
                       [&] { return WholeWinogradWeight(p.weight, plan.side, in.block, out.block); });
  const Attrs attrs =
      WordConvAttrs(request.call->attrs.as<Conv2DAttrs>(), p.weight, in, out, out.PaddedChannels(p.oc), 1, kSum);
  const Array<relay::Expr> operands{request.args.Get(0, in), weight, request.args.Plain(2)};
  return relay::LaidOutCall{relay::Call(Op::Get(kOp), operands, attrs, {}, request.call->span), out};
}

}  // namespace

void RegisterByteWinograd() {
  OpRegistration(kOp)
      .Describe(
          "Convolution of a 3 x 3 window on channel-blocked integers from 0 to 255, by Winograd's minimal "
          "filtering, in int32, exact.")
      .Arguments({{"data", "Tensor", "int16 (N, IC/ib, H, W, ib), of 0 to 255"},
                  {"weight", "Tensor",
                   "The transformed kernel (a, a, OC/ob, IC/ib, ib/2, ob), words of two int16; tiles are of a - 2; "
                   "a = 5: of 2, with stride 2."},
                  {"pad_value", "Tensor", "Scalar of the data's type"}})
      .AttrsType<Conv2DAttrs>()
      .SupportLevel(11)
      .Relation(Rule<Infer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(WinogradMacs))
      .Set(relay::kMacShare, relay::FMacShare(WinogradMacShare))
      .Set(kCompute, FTECompute(Compute));
  Kernel kernel;
  kernel.name = "qnn_conv2d.winograd";
  kernel.op = "qnn.contrib_conv2d";
  kernel.target = "cpu";
  kernel.plan_type = ByteWinogradPlanNode::StaticTypeInfo();
  kernel.graph_fields = {"side", "ic_block", "oc_block"};
  kernel.least_gain = 0;
  kernel.why_not = WhyNot;
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
