// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/conv_layout.h"

#include <algorithm>

#include "ops/change_layout.h"
#include "ops/infer.h"
#include "targets/cpu/kernels/weight_forms.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"

namespace treadle::ops::cpu {

using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using relay::LaidOutCall;
using runtime::NDArray;

namespace {

/// Why the weight, which only a run knows, isn't packed at each run: it is for enough results that each of its elements
/// is used often.
std::string WhyNotPackedAtRun(const CallNode* call, int64_t groups) {
  constexpr int64_t kLeastUses = 32;
  if (groups != 1) return "the weight isn't constant, and there are several groups";
  const Array<PrimExpr>& shape = call->type_as<TensorTypeNode>()->shape;
  int64_t uses = 1;
  // More than enough count as enough, so that no product is too large.
  for (size_t i : {0, 2, 3}) uses *= DimValue(shape[i]) < 0 ? kLeastUses : std::min(DimValue(shape[i]), kLeastUses);
  return uses < kLeastUses ? "the weight isn't constant, and used by few pixels" : "";
}

std::string WhyNotBlockedCall(const CallNode* call, const relay::LayoutArgs& args) {
  const auto* a = call->attrs.as<Conv2DAttrs>();
  const auto *data = args.Type(0), *kernel = args.Type(1);
  const bool nchw = a != nullptr && a->IsIn("NCHW", "OIHW") && data->shape.size() == 4;
  if (!nchw) return "the model's layouts aren't NCHW and OIHW";
  if (AsConstInt(data->shape[1]) == nullptr || !IsStatic(kernel)) return "the number of channels is dynamic";
  if (data->dtype != DataType::Float(32)) return StrCat("the data are ", data->dtype, ", not float32");
  return call->args[1].as<ConstantNode>() == nullptr ? WhyNotPackedAtRun(call, a->groups) : "";
}

/// The same by pairs of bfloat16, summed in float32.
std::string WhyNotPairs(const CallNode* call, const relay::LayoutArgs& args) {
  const auto* a = call->attrs.as<Conv2DAttrs>();
  const auto *data = args.Type(0), *kernel = args.Type(1), *type = call->type_as<TensorTypeNode>();
  const DataType half = DataType::BFloat(16);
  if (data->dtype != half || kernel->dtype != half) return "the operands aren't bfloat16";
  if (type->dtype != DataType::Float(32)) return "sums aren't float32";
  const bool nchw = a != nullptr && a->IsIn("NCHW", "OIHW") && data->shape.size() == 4;
  if (!nchw) return "the model's layouts aren't NCHW and OIHW";
  if (DimValue(data->shape[1]) < 1) return "the number of channels is dynamic";
  const auto* constant = call->args[1].as<ConstantNode>();
  return constant != nullptr && constant->data.IsCompact() ? "" : "the weight isn't constant";
}

/// The layouts that activations of a convolution have; of several groups its kernel decides (grouped_conv.cc).
void SetLayouts(const relay::LayoutArgs& args, int64_t ic, int64_t oc, int lanes, ConvProblemNode* p) {
  constexpr int64_t kMinPadded = 8;
  const int64_t pixels = p->oh >= 0 && p->ow >= 0 && p->batch >= 0 ? p->oh * p->ow : -1;
  p->in_layout = args.LayoutOf(0);
  if (p->is_depthwise()) {
    if (p->in_layout.is_plain()) p->in_layout = ConvLayout(oc, pixels, lanes);
    p->out_layout = p->in_layout;
    return;
  }
  if (p->groups != 1) return;
  p->out_layout = ConvLayout(oc, pixels, lanes);
  if (p->in_layout.is_plain()) {
    p->in_layout = ic >= kMinPadded ? ConvLayout(ic, pixels, lanes) : relay::DividingLayout(ic);
  }
}

/// The same where only the run knows the weight: channels that pad blocks aren't added to it.
Problem LaidOutAtRun(const ConvProblemNode& from) {
  auto node = MakeObject<ConvProblemNode>(from);
  auto fits = [](const ChannelLayout& layout, int64_t channels) {
    return layout.is_in_order() && layout.PaddedChannels(channels) == channels;
  };
  if (!fits(from.out_layout, from.oc) || !fits(from.in_layout, from.ic)) {
    node->not_blocked = "the weight isn't constant, and channels don't fill blocks";
  } else {
    node->oc_block = from.out_layout.block;
    node->ic_block = from.in_layout.block;
  }
  return Problem(ObjectPtr<Object>(node));
}

/// The problem with channels and weights as its layouts want them.
Problem LaidOut(const Problem& open, const CallNode* call) {
  const auto& from = *open.as<ConvProblemNode>();
  if (!from.not_blocked.empty()) return open;
  auto node = MakeObject<ConvProblemNode>(from);
  ConvProblemNode& p = *node;
  if (from.groups != 1) {
    p.padded_weight = call->args[1].as<ConstantNode>()->data;
    return Problem(ObjectPtr<Object>(node));
  }
  if (from.out_layout.is_plain()) return open;
  if (!from.constant_weight) return LaidOutAtRun(from);
  p.weight = PadOutputChannels(call->args[1].as<ConstantNode>()->data, p.out_layout);
  p.oc = p.weight.shape()[0];
  p.oc_block = p.out_layout.block;
  p.padded_weight = p.weight;
  if (p.in_layout.is_blocked()) {
    const int64_t padded = p.in_layout.PaddedChannels(p.ic);
    p.padded_weight = WeightForms::Get(p.weight, StrCat("inputs ", p.in_layout.str()), [&] {
                        return ScatterChannels(p.weight, 1, p.in_layout.ChannelIndexMap(p.ic), padded);
                      })->data;
    p.ic_block = p.in_layout.block;
    p.indexed_ic = !p.in_layout.is_in_order() && padded > p.ic;
    if (p.indexed_ic) {
      p.data_ic = padded;
      p.ic_block = 1;
    } else {
      p.ic = padded;
    }
  }
  return Problem(ObjectPtr<Object>(node));
}

}  // namespace

void SetCallSizes(const CallNode* call, const relay::LayoutArgs& args, ConvProblemNode* p) {
  SetCallSizes(call, args.Type(0), args.Type(1), p);
}

void SetCallSizes(const CallNode* call, const TensorTypeNode* data, const TensorTypeNode* kernel, ConvProblemNode* p) {
  const auto* a = call->attrs.as<Conv2DAttrs>();
  const auto* type = call->type_as<TensorTypeNode>();
  p->dtype = data->dtype;
  p->weight_dtype = kernel->dtype;
  p->out_dtype = type->dtype;
  p->constant_weight = call->args[1].as<ConstantNode>() != nullptr;
  if (a == nullptr || data->shape.size() != 4 || kernel->shape.size() != 4 || type->shape.size() != 4) return;
  const std::vector<int64_t> pads = NormalizePadding(a->padding, 2, true);
  p->batch = DimValue(type->shape[0]);
  p->ic = DimValue(data->shape[1]);
  p->ih = DimValue(data->shape[2]);
  p->iw = DimValue(data->shape[3]);
  p->oc = DimValue(kernel->shape[0]);
  p->oh = DimValue(type->shape[2]);
  p->ow = DimValue(type->shape[3]);
  p->kh = DimValue(kernel->shape[2]);
  p->kw = DimValue(kernel->shape[3]);
  p->stride_h = a->strides[0];
  p->stride_w = a->strides[1];
  p->dilation_h = a->dilation[0];
  p->dilation_w = a->dilation[1];
  p->pad_t = pads[0];
  p->pad_l = pads[1];
  p->pad_b = pads[2];
  p->pad_r = pads[3];
  p->groups = a->groups;
}

Problem ConvProblem(const CallNode* call, const relay::LayoutArgs& args, const Machine& machine,
                    const ChannelLayout& out) {
  const Problem open = Make<Problem, ConvProblemNode>([&](auto& p) {
    p.not_blocked = WhyNotBlockedCall(call, args);
    SetCallSizes(call, args, &p);
    p.not_pairs = WhyNotPairs(call, args);
    if (p.not_pairs.empty()) {
      p.in_layout = args.LayoutOf(0);
      if (!p.in_layout.is_in_order()) p.in_layout = {};
      p.out_layout = out;
    }
    if (!p.not_blocked.empty()) return;
    SetLayouts(args, p.ic, p.oc, machine.vector_lanes(32), &p);
    if (out.is_blocked() && p.groups == 1) p.out_layout = out;
  });
  Problem usual = LaidOut(open, call);
  const std::optional<ChannelLayout> recorded = RecordedConvLayout(usual, machine);
  if (!recorded) return usual;
  auto other = MakeObject<ConvProblemNode>(*open.as<ConvProblemNode>());
  other->out_layout = *recorded;
  return LaidOut(Problem(ObjectPtr<Object>(other)), call);
}

void SetBlockedSizes(const Conv2DAttrs* attrs, const Array<PrimExpr>& data, const Array<PrimExpr>& out,
                     ConvProblemNode* p) {
  constexpr size_t kBlockedRank = 5;
  const std::vector<int64_t> pads = NormalizePadding(attrs->padding, 2, true);
  p->batch = DimValue(data[0]);
  p->ic = DimValue(data[1]);
  if (data.size() == kBlockedRank) {
    p->ic_block = DimValue(data[4]);
    p->ic *= p->ic_block;
  }
  p->ih = DimValue(data[2]);
  p->iw = DimValue(data[3]);
  p->oc_block = DimValue(out[4]);
  p->oc = DimValue(out[1]) * p->oc_block;
  p->oh = DimValue(out[2]);
  p->ow = DimValue(out[3]);
  p->stride_h = attrs->strides[0];
  p->stride_w = attrs->strides[1];
  p->dilation_h = attrs->dilation[0];
  p->dilation_w = attrs->dilation[1];
  p->pad_t = pads[0];
  p->pad_l = pads[1];
  p->pad_b = pads[2];
  p->pad_r = pads[3];
  p->groups = attrs->groups;
}

bool FusesSpatial(const ConvProblemNode& p) {
  constexpr int64_t kShortRow = 20;
  if (p.ic_block == 0 || (p.dtype.is_float() && p.dtype != p.out_dtype)) return false;
  const bool padded = p.pad_t + p.pad_l + p.pad_b + p.pad_r != 0, pointwise = !padded && p.kh == 1 && p.kw == 1;
  return pointwise || (p.groups == 1 && p.ow >= 0 && p.ow < kShortRow);
}

int64_t SizeOrUsual(int64_t size, int64_t channels) {
  constexpr int64_t kUsual = 56 * 64, kLeast = 7, kMost = 112;
  return size < 0 ? std::clamp(kUsual / std::max<int64_t>(1, channels), kLeast, kMost) : size;
}

ConvProblemNode OfUsualSize(const ConvProblemNode& p) {
  ConvProblemNode usual = p;
  // Pointwise layers lead to bottlenecks and out of them.
  const bool pointwise = p.kh == 1 && p.kw == 1;
  const int64_t channels = p.stride_h > 1 ? std::max(p.ic, p.oc) : pointwise ? std::min(p.ic, p.oc) : p.ic;
  auto read = [](int64_t outputs, int64_t stride, int64_t taps, int64_t dilation, int64_t padding) {
    return std::max<int64_t>(1, (outputs - 1) * stride + (taps - 1) * dilation + 1 - padding);
  };
  usual.oh = SizeOrUsual(p.oh, channels);
  usual.ow = SizeOrUsual(p.ow, channels);
  // Lines of text and spectrograms, of which only the length is dynamic, are long.
  constexpr int64_t kLong = 8;
  if (p.oh >= 0 && p.ow < 0) usual.ow = std::max(usual.ow, kLong * p.oh);
  if (p.ow >= 0 && p.oh < 0) usual.oh = std::max(usual.oh, kLong * p.ow);
  if (p.ih < 0) usual.ih = read(usual.oh, p.stride_h, p.kh, p.dilation_h, p.pad_t + p.pad_b);
  if (p.iw < 0) usual.iw = read(usual.ow, p.stride_w, p.kw, p.dilation_w, p.pad_l + p.pad_r);
  return usual;
}

std::string WhyNotBlocked(const ConvProblemNode& p) {
  if (!p.not_blocked.empty()) return p.not_blocked;
  return p.oc_block == 0 ? StrCat(p.oc, " output channels fill too little of their blocks") : "";
}

std::string BlockedKernelLayout(int64_t ic_block, int64_t oc_block) {
  return ic_block == 0 ? StrCat("OIHW", oc_block, "o") : StrCat("OIHW", ic_block, "i", oc_block, "o");
}

Attrs BlockedAttrs(const Conv2DAttrs* attrs, const ChannelLayout& data, const std::string& kernel,
                   const ChannelLayout& out) {
  auto node = MakeObject<Conv2DAttrs>(*attrs);
  node->channels.reset();  // the weight says, which may have more
  node->data_layout = data.axes();
  node->kernel_layout = kernel;
  node->out_layout = out.axes();
  return Attrs(ObjectPtr<Object>(node));
}

NDArray ScatterChannels(const NDArray& weight, size_t axis, const std::vector<int64_t>& index, int64_t extent) {
  std::vector<int64_t> shape(weight.shape().begin(), weight.shape().end());
  if (shape[axis] == extent && std::is_sorted(index.begin(), index.end())) return weight;
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  shape[axis] = extent;
  NDArray result = NDArray::Empty(shape, DataType::Float(32));
  const auto* from = weight.Data<float>();
  auto* to = result.Data<float>();
  std::fill(to, to + result.size(), 0.0F);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t channel : index) {
      std::copy(from, from + inner, to + (o * extent + channel) * inner);
      from += inner;
    }
  }
  return result;
}

NDArray PadOutputChannels(const NDArray& weight, const ChannelLayout& layout) {
  const int64_t channels = weight.shape()[0];
  return WeightForms::Get(weight, StrCat("outputs ", layout.str()),
                          [&] {
                            return ScatterChannels(weight, 0, layout.ChannelIndexMap(channels),
                                                   layout.PaddedChannels(channels));
                          })
      ->data;
}

ChannelLayout BlockedLayout(int64_t channels, int lanes) {
  const ChannelLayout layout = relay::PaddedLayout(channels, lanes);
  if (layout.is_blocked()) return layout;
  return {channels > 8 && lanes > 8 ? 16 : 8};
}

ChannelLayout ConvLayout(int64_t channels, int64_t pixels, int lanes) {
  const ChannelLayout layout = relay::PaddedLayout(channels, lanes);
  // Of one vector per channel little is computed: blocks of any kind are better than changing the layout.
  return layout.is_plain() && pixels == 1 ? ChannelLayout{8} : layout;
}

double LayoutChangeCycles(const ConvProblemNode& p, const Machine& machine) {
  const auto bytes = static_cast<double>(std::max<int64_t>(1, p.batch) * p.ic * p.dtype.bytes());
  return 2 * bytes * static_cast<double>(p.ih * p.iw) * machine.beyond_l2_cycles_per_byte;
}

double StripCycles(const ConvProblemNode& p, int64_t rows, int64_t channels, int64_t element_bytes,
                   const Machine& machine) {
  const int64_t read = (rows - 1) * p.stride_h + (p.kh - 1) * p.dilation_h + 1;
  const int64_t width = std::max<int64_t>(0, p.iw), pixel = channels * element_bytes;
  const auto copy = static_cast<double>(read * (width + p.pad_l + p.pad_r) * pixel);
  const auto source = static_cast<double>(std::min(read, std::max<int64_t>(1, p.ih)) * width * pixel);
  const auto results = static_cast<double>(rows * std::max<int64_t>(0, p.ow) * pixel);
  double cycles = Fitted().strip_pad * copy * 8 / std::max(1, machine.vector_bits);
  // What is made goes to the next cache and comes back, unless all that passes meanwhile leaves room for it.
  if (source + copy + results > static_cast<double>(machine.l1_bytes)) cycles += Fitted().strip_l2_byte * copy;
  if (copy > static_cast<double>(machine.l2_bytes) / 2) cycles += 2 * copy * machine.beyond_l2_cycles_per_byte;
  return cycles;
}

bool HasPadding(const ConvProblemNode& p) { return p.pad_t + p.pad_l + p.pad_b + p.pad_r != 0; }

namespace {

/// One constant for all calls that have the weight, so that what is made of it is one, too.
relay::Constant SharedConstant(const NDArray& weight) {
  return WeightForms::Get(weight, "itself", [&] { return weight; });
}

}  // namespace

LaidOutCall BlockedConv(const LayoutRequest& request, const Expr& weight, const ChannelLayout& in,
                        const ChannelLayout& out, int64_t groups) {
  const CallNode* call = request.call;
  const std::string kernel_layout = BlockedKernelLayout(in.block, out.block);
  Expr w = LayoutTransform(weight, "OIHW", kernel_layout);
  auto attrs =
      MakeObject<Conv2DAttrs>(*BlockedAttrs(call->attrs.as<Conv2DAttrs>(), in, kernel_layout, out).as<Conv2DAttrs>());
  attrs->groups = static_cast<decltype(attrs->groups)>(groups);
  static const Op op = Op::Get("nn.contrib_conv2d_NCHWc");
  return {relay::Call(op, {request.args.Get(0, in), w}, Attrs(ObjectPtr<Object>(attrs)), {}, call->span), out};
}

LaidOutCall BlockedConv(const LayoutRequest& request, const NDArray& weight, const ChannelLayout& in,
                        const ChannelLayout& out, int64_t groups) {
  const Expr& own = request.call->args[1];
  const bool same = weight.same_as(own.as<ConstantNode>()->data);
  return BlockedConv(request, same ? own : Expr(SharedConstant(weight)), in, out, groups);
}

LaidOutCall IndexedConv(const LayoutRequest& request, const NDArray& weight, const ChannelLayout& in,
                        const ChannelLayout& out, int64_t groups) {
  const CallNode* call = request.call;
  const std::string kernel_layout = BlockedKernelLayout(1, out.block);
  Expr w = LayoutTransform(SharedConstant(weight), "OIHW", kernel_layout);
  const std::vector<int64_t> index = in.ChannelIndexMap(weight.shape()[1] * groups);
  NDArray channels = NDArray::Empty({static_cast<int64_t>(index.size())}, DataType::Int(32));
  std::copy(index.begin(), index.end(), channels.Data<int32_t>());
  auto attrs =
      MakeObject<Conv2DAttrs>(*BlockedAttrs(call->attrs.as<Conv2DAttrs>(), in, kernel_layout, out).as<Conv2DAttrs>());
  attrs->groups = static_cast<decltype(attrs->groups)>(groups);
  static const Op op = Op::Get("nn.contrib_conv2d_select_NCHWc");
  return {relay::Call(op, {request.args.Get(0, in), w, relay::Constant(channels)}, Attrs(ObjectPtr<Object>(attrs)), {},
                      call->span),
          out, relay::PaddingUse::kNotRead};
}

std::string WhyNotFlatPointwise(const ConvProblemNode& p) {
  constexpr int64_t kMinWidth = 64;
  if (!p.not_blocked.empty()) return p.not_blocked;
  if (!p.is_static() || p.batch < 0) return "the image's size is dynamic";
  if (p.kh != 1 || p.kw != 1) return StrCat("the kernel is ", p.kh, " x ", p.kw, ", not 1 x 1");
  if (p.stride_h != 1 || p.stride_w != 1) return "it has strides";
  if (p.pad_t != 0 || p.pad_l != 0 || p.pad_b != 0 || p.pad_r != 0) return "the image is padded";
  if (p.ih == 1) return "the image is one row as it is";
  return p.iw >= kMinWidth ? StrCat("rows of ", p.iw, " are long enough as they are") : "";
}

std::optional<LaidOutCall> FlatPointwiseConv(const LayoutRequest& request) {
  const CallNode* call = request.call;
  const auto *data = request.args.Type(0), *kernel = request.args.Type(1);
  const int64_t batch = DimValue(data->shape[0]), ic = DimValue(data->shape[1]), oc = DimValue(kernel->shape[0]);
  const int64_t height = DimValue(data->shape[2]), width = DimValue(data->shape[3]);
  Expr row = MakeReshape(request.args.Plain(0), std::vector<int64_t>{batch, ic, 1, height * width});
  Expr conv = relay::Call(call->op, {row, call->args[1]}, call->attrs, {}, call->span);
  return LaidOutCall{MakeReshape(conv, std::vector<int64_t>{batch, oc, height, width}), {}};
}

}  // namespace treadle::ops::cpu
