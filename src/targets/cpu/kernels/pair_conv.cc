// SPDX-License-Identifier: Apache-2.0
// Convolutions of bfloat16 on channel-blocked activations, summed in float32. Words of two neighbouring channels take
// the place of floats (pair_matmul.cc), so that convolutions have the form, and the schedules, of those of floats
// (direct_conv.cc).
#include <algorithm>

#include "ops/change_layout.h"
#include "ops/conv.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "ops/macs.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/rooms.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/tir/pair_ops.h"

namespace treadle::ops::cpu {
namespace {

using relay::CallNode;
using relay::ConstantNode;
using relay::LaidOutCall;
using relay::LayoutArgs;
using te::Var;

constexpr const char* kDirect = "conv2d.direct";
constexpr int64_t kPair = 2;
const DataType kHalf = DataType::BFloat(16), kSum = DataType::Float(32);

/// The type of the sums: of data in data_layout, `channels` of them; the weight's form is the kernel's own.
Type PairConvInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<Conv2DAttrs>();
  if (data->dtype != kHalf) throw DTypeError(StrCat("data must be bfloat16, not ", data->dtype));
  if (!attrs->channels || !attrs->kernel_size) throw ShapeError("channels and kernel_size must be given");
  const ops::ConvSizes sizes = ResolveConv(attrs, 2, data->shape, data->dtype, nullptr);
  return TensorType(PhysicalShape(attrs->ParsedOutLayout(), sizes.out, "NCHW"), kSum);
}

/// What a convolution of words sums over.
struct PairSum {
  te::IterVar ic, kh, kw, ii;  ///< blocks of input channels; rows and columns of the kernel; words of a block

  explicit PairSum(const Tensor& kernel)
      : ic(te::ReduceAxis(tir::Range(kernel->shape[1]), "ic")),
        kh(te::ReduceAxis(tir::Range(kernel->shape[2]), "kh")),
        kw(te::ReduceAxis(tir::Range(kernel->shape[3]), "kw")),
        ii(te::ReduceAxis(tir::Range(kernel->shape[4]), "ici")) {}

  PrimExpr Product(const Tensor& data, const Tensor& kernel, const PrimExpr& n, const PrimExpr& out,
                   const PrimExpr& row, const PrimExpr& column, const PrimExpr& lane) const {
    const PrimExpr at = PrimExpr(ii->var) * Index(kPair);
    const PrimExpr word = tir::pack_pair(data(n, ic->var, row, column, at), data(n, ic->var, row, column, at + 1));
    return te::Sum(tir::dot_pairs(word, kernel(out, ic->var, kh->var, kw->var, ii->var, lane)), {ic, kh, kw, ii});
  }
};

/// Channels of the data are bfloat16, those of the weight words.
Problem ProblemOf(const Conv2DAttrs* a, const Tensor& data, const Tensor& kernel, const TensorTypeNode* type) {
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    SetBlockedSizes(a, data->shape, type->shape, &p);
    p.data_ic = p.ic;
    p.ic_block = DimValue(kernel->shape[4]);
    p.ic = DimValue(kernel->shape[1]) * p.ic_block;
    p.kh = (*a->kernel_size)[0];
    p.kw = (*a->kernel_size)[1];
    p.dtype = data->dtype;
    p.weight_dtype = kernel->dtype;
    p.out_dtype = type->dtype;
  });
}

/// The elements that a strided window of one element meets, next to each other.
Tensor PackStrided(const Conv2DAttrs* a, const Tensor& data, const TensorTypeNode* type) {
  return te::Compute(
      {data->shape[0], data->shape[1], type->shape[2], type->shape[3], data->shape[4]},
      [&](const Array<Var>& i) {
        return data(Array<PrimExpr>{i[0], i[1], PrimExpr(i[2]) * a->strides[0], PrimExpr(i[3]) * a->strides[1], i[4]});
      },
      "pack_strided", tag::kPad, StageAttrs(kDirect, "pad"), {"n", "cb", "h", "w", "ci"});
}

/// With OH and OW fused, so that rows of any width fill tiles.
Array<Tensor> FusedSpatialCompute(const Problem& problem, const Conv2DAttrs* a, const Tensor& data,
                                  const Tensor& kernel, const TensorTypeNode* type) {
  const PairSum sum(kernel);
  const PrimExpr width = type->shape[3];
  std::vector<int64_t> strides = a->strides;
  Tensor from = data;
  if (tir::is_one(kernel->shape[2]) && tir::is_one(kernel->shape[3]) && strides != std::vector<int64_t>{1, 1}) {
    from = PackStrided(a, data, type);
    strides = {1, 1};
  }
  Tensor flat = te::Compute(
      {type->shape[0], type->shape[1], type->shape[2] * width, type->shape[4]},
      [&](const Array<Var>& i) {
        const PrimExpr row = tir::floordiv(i[2], width) * strides[0] + PrimExpr(sum.kh->var) * a->dilation[0];
        const PrimExpr column = tir::floormod(i[2], width) * strides[1] + PrimExpr(sum.kw->var) * a->dilation[1];
        return sum.Product(from, kernel, i[0], i[1], row, column, i[3]);
      },
      "conv2d_NCHWc", "conv2d_NCHWc_flat", AnchorAttrs(kDirect, "sum", problem), {"n", "oc", "pixel", "oci"});
  return {te::Compute(
      type->shape,
      [&](const Array<Var>& i) { return flat(Array<PrimExpr>{i[0], i[1], PrimExpr(i[2]) * width + i[3], i[4]}); },
      "conv2d_NCHWc_output", "injective", {}, {"n", "oc", "oh", "ow", "oci"})};
}

/// data (N, IC/ib, H, W, ib) bfloat16; weight (OC/ob, IC/ib, KH, KW, ib/2, ob) words of two input channels. Result:
/// (N, OC/ob, OH, OW, ob) float32.
Array<Tensor> PairConvCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const TensorTypeNode* type = OutTensor(out_type);
  const Tensor& kernel = inputs[1];
  const std::vector<int64_t> pads = NormalizePadding(a->padding, 2);
  const bool padded = std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; });
  Tensor data = padded ? PadSpatial(inputs[0], pads, kDirect) : inputs[0];
  const Problem problem = ProblemOf(a, inputs[0], kernel, type);
  if (FusesSpatial(*problem.as<ConvProblemNode>())) return FusedSpatialCompute(problem, a, data, kernel, type);
  const PairSum sum(kernel);
  return {te::Compute(type->shape,
                      [&](const Array<Var>& i) {
                        const PrimExpr row = PrimExpr(i[2]) * a->strides[0] + PrimExpr(sum.kh->var) * a->dilation[0];
                        const PrimExpr column = PrimExpr(i[3]) * a->strides[1] + PrimExpr(sum.kw->var) * a->dilation[1];
                        return sum.Product(data, kernel, i[0], i[1], row, column, i[4]);
                      },
                      "conv2d_NCHWc", "conv2d_NCHWc", AnchorAttrs(kDirect, "sum", problem),
                      {"n", "oc", "oh", "ow", "oci"})};
}

double PairConvMacs(const Attrs& attrs, const Array<Type>& arguments, const Type& result) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const Array<PrimExpr> data = LogicalShape(a->ParsedDataLayout(), ShapeOf(arguments[0]), "NCHW", "data");
  double macs = Elements(ShapeOf(result)) * static_cast<double>(std::max<int64_t>(1, DimValue(data[1])));
  for (int64_t taps : *a->kernel_size) macs *= static_cast<double>(taps);
  return macs;
}

// ---- Choosing layouts ----

/// The layout of so many channels, the last block of which may be padded.
ChannelLayout BlocksFor(int64_t channels, int lanes) {
  const ChannelLayout layout = relay::PaddedLayout(channels, lanes);
  if (layout.is_blocked()) return layout;
  return {channels > 8 && lanes > 8 ? 16 : 8};
}

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
  ChannelLayout in = args.LayoutOf(0);
  if (in.is_plain() || !in.is_in_order()) in = BlocksFor(DimValue(data->shape[1]), lanes);
  const ChannelLayout out = BlocksFor(weight.shape()[0], lanes);
  auto attrs = MakeObject<Conv2DAttrs>(*a);
  attrs->channels = out.PaddedChannels(weight.shape()[0]);
  attrs->kernel_size = std::vector<int64_t>{weight.shape()[2], weight.shape()[3]};
  attrs->data_layout = in.axes();
  attrs->out_layout = out.axes();
  Array<relay::Expr> operands{args.Get(0, in), relay::Constant(PackedWeight(weight, in.block, out.block))};
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
      .Set(relay::kMacCount, relay::FMacCount(PairConvMacs))
      .Set(kCompute, FTECompute(PairConvCompute));
  const auto* own = Op::Get("nn.conv2d").GetAttr(relay::kLayoutRule);
  rule_of_others = own == nullptr ? nullptr : *own;
  OpRegistration("nn.conv2d").Set(relay::kLayoutRule, relay::FLayoutRule(PairConvRule));
}

}  // namespace treadle::ops::cpu
