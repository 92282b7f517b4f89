// SPDX-License-Identifier: Apache-2.0
// Convolutions of bfloat16 on channel-blocked activations, summed in float32. Words of two neighbouring channels take
// the place of floats (pair_matmul.cc), so that convolutions have the form, and the schedules, of those of floats
// (direct_conv.cc).
#include <algorithm>

#include "ops/change_layout.h"
#include "ops/infer.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/conv_compute.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/rooms.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/relay/mac_count.h"
#include "treadle/tir/pair_ops.h"

namespace treadle::ops::cpu {
namespace {

using relay::CallNode;
using relay::ConstantNode;
using relay::LaidOutCall;
using relay::LayoutArgs;

constexpr int64_t kPair = 2;
const DataType kHalf = DataType::BFloat(16), kSum = DataType::Float(32);

Type PairConvInfer(const InferContext& context) { return PackedConvInfer(context, kHalf, kSum); }

/// Channels of the data are bfloat16, those of the weight words.
Problem ProblemOf(const Conv2DAttrs* a, const Tensor& data, const Tensor& kernel, const TensorTypeNode* type) {
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    SetConvProblem(a, data, kernel, type, &p);
    p.data_ic = p.ic;
    p.ic_block = DimValue(kernel->shape[4]);
    p.ic = DimValue(kernel->shape[1]) * p.ic_block;
    p.kh = (*a->kernel_size)[0];
    p.kw = (*a->kernel_size)[1];
  });
}

/// data (N, IC/ib, H, W, ib) bfloat16; weight (OC/ob, IC/ib, KH, KW, ib/2, ob) words of two input channels. Result:
/// (N, OC/ob, OH, OW, ob) float32.
Array<Tensor> PairConvCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const TensorTypeNode* type = OutTensor(out_type);
  const Tensor& kernel = inputs[1];
  const Tensor data = PadSpatial(inputs[0], NormalizePadding(a->padding, 2), kDirectConv);
  const Problem problem = ProblemOf(a, inputs[0], kernel, type);
  const ConvReduceAxes axes(a, kernel);
  auto term = [&](const Tensor& from, const PrimExpr& n, const PrimExpr& oc, const PrimExpr& row,
                  const PrimExpr& column, const PrimExpr& lane) {
    const PrimExpr ib = axes.InputBlock(oc), at = PrimExpr(axes.ii->var) * Index(kPair);
    const PrimExpr word = tir::pack_pair(from(n, ib, row, column, at), from(n, ib, row, column, at + 1));
    return tir::dot_pairs(word, axes.Weight(kernel, oc, lane));
  };
  return DirectConvSums(problem, a, data, kernel, type, axes, term);
}

// ---- Choosing layouts ----

/// `weight` (OIHW) in (out / ob, in / ib, KH, KW, ib / 2, ob) words.
runtime::NDArray PackedWeight(const runtime::NDArray& weight, int64_t in_block, int64_t out_block) {
  const std::vector<int64_t>& shape = weight.shape();
  const int64_t outputs = shape[0], inputs = shape[1], taps = shape[2] * shape[3];
  const int64_t in_blocks = (inputs + in_block - 1) / in_block, out_blocks = (outputs + out_block - 1) / out_block;
  runtime::NDArray packed = runtime::NDArray::Empty(
      {out_blocks, in_blocks, shape[2], shape[3], in_block / kPair, out_block}, DataType::Int(32));
  auto* to = packed.Data<uint16_t>();
  std::fill(to, to + packed.size() * kPair, uint16_t{0});
  const auto* from = weight.Data<uint16_t>();
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t c = 0; c < inputs; ++c) {
      for (int64_t t = 0; t < taps; ++t) {
        int64_t place = ((o / out_block * in_blocks + c / in_block) * taps + t) * (in_block / kPair);
        place = (place + c % in_block / kPair) * out_block + o % out_block;
        to[place * kPair + c % kPair] = *from++;
      }
    }
  }
  return packed;
}

/// Few channels of plain data in one block of whole words.
relay::Expr ChannelsAsWords(const relay::Expr& data, int64_t channels, int64_t block) {
  relay::Expr whole = data;
  if (channels < block) {
    whole = MakePad(data, {{0, 0}, {0, block - channels}, {0, 0}, {0, 0}}, ScalarConstant(kHalf, int64_t{0}));
  }
  return LayoutTransform(whole, "NCHW", StrCat("NCHW", block, "c"));
}

relay::FLayoutRule rule_of_others = nullptr;

/// Runs nn.conv2d of bfloat16 with constant weights and sums in float32 on blocked activations.
std::optional<LaidOutCall> PairConvRule(const CallNode* call, LayoutArgs& args) {
  const auto* a = call->attrs.as<Conv2DAttrs>();
  const auto *data = args.Type(0), *kernel = args.Type(1);
  const auto* constant = call->args[1].as<ConstantNode>();
  const bool applies = a != nullptr && a->groups == 1 && a->out_dtype == kSum && a->IsIn("NCHW", "OIHW") &&
                       constant != nullptr && constant->data.IsCompact() && data->dtype == kHalf &&
                       kernel->dtype == kHalf && data->shape.size() == 4 && DimValue(data->shape[1]) > 0;
  if (!applies) return rule_of_others == nullptr ? std::nullopt : rule_of_others(call, args);
  const runtime::NDArray& weight = constant->data;
  const int lanes = args.lanes();
  constexpr int64_t kLeastBlocked = 8;
  const int64_t inputs = DimValue(data->shape[1]);
  ChannelLayout in = args.LayoutOf(0);
  const bool few = in.is_plain() && inputs < kLeastBlocked;
  if (few) {
    in = ChannelLayout{(inputs + kPair - 1) / kPair * kPair};
  } else if (in.is_plain() || !in.is_in_order()) {
    in = BlockedLayout(inputs, lanes);
  }
  const ChannelLayout out = BlockedLayout(weight.shape()[0], lanes);
  auto attrs = MakeObject<Conv2DAttrs>(*a);
  attrs->channels = out.PaddedChannels(weight.shape()[0]);
  attrs->kernel_size = std::vector<int64_t>{weight.shape()[2], weight.shape()[3]};
  attrs->data_layout = in.axes();
  attrs->out_layout = out.axes();
  const relay::Expr blocked = few ? ChannelsAsWords(args.Plain(0), inputs, in.block) : args.Get(0, in);
  Array<relay::Expr> operands{blocked, relay::Constant(PackedWeight(weight, in.block, out.block))};
  return LaidOutCall{
      relay::Call(Op::Get("nn.contrib_conv2d_NCHWc_pairs"), operands, Attrs(ObjectPtr<Object>(attrs)), {}, call->span),
      out};
}

}  // namespace

void RegisterPairConv() {
  OpRegistration("nn.contrib_conv2d_NCHWc_pairs")
      .Describe("Convolution of channel-blocked bfloat16, in float32.")
      .Arguments({{"data", "Tensor", "bfloat16, in data_layout"},
                  {"weight", "Tensor", "(OC/ob, IC/ib, KH, KW, ib/2, ob) words of two bfloat16"}})
      .AttrsType<Conv2DAttrs>()
      .SupportLevel(11)
      .Relation(Rule<PairConvInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(PackedConvMacs))
      .Set(kCompute, FTECompute(PairConvCompute));
  const auto* own = Op::Get("nn.conv2d").GetAttr(relay::kLayoutRule);
  rule_of_others = own == nullptr ? nullptr : *own;
  OpRegistration("nn.conv2d").Set(relay::kLayoutRule, relay::FLayoutRule(PairConvRule));
}

}  // namespace treadle::ops::cpu
