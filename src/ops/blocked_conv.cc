// SPDX-License-Identifier: Apache-2.0
// Two-dimensional convolution on channel-blocked activations (NCHW16c): the form in which CPUs run convolutions.
// The inner channels fill a vector register, so that one input element meets a vector of output channels.
#include <algorithm>

#include "ops/blocked_conv.h"
#include "ops/families.h"
#include "ops/winograd.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/transform.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/relay/layout.h"

namespace treadle::ops {
namespace {

using relay::BlockedLayout;
using relay::BlockOf;
using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using relay::LaidOutCall;
using relay::LayoutArgs;
using te::Tensor;
using te::Var;

/// Top, left, bottom, right.
std::vector<int64_t> FourPads(const std::vector<int64_t>& padding) {
  if (padding.size() == 1) return {padding[0], padding[0], padding[0], padding[0]};
  if (padding.size() == 2) return {padding[0], padding[1], padding[0], padding[1]};
  return padding;
}

/// Pads dimensions 2 and 3 with zeros.
Tensor PadSpatial(const Tensor& data, const std::vector<int64_t>& pads) {
  if (pads[0] + pads[1] + pads[2] + pads[3] == 0) return data;
  Array<PrimExpr> shape = data->shape;
  PrimExpr height = shape[2], width = shape[3];
  shape.Set(2, height + (pads[0] + pads[2]));
  shape.Set(3, width + (pads[1] + pads[3]));
  return te::Compute(
      shape,
      [&](const Array<Var>& i) {
        Array<PrimExpr> indices(i.begin(), i.end());
        PrimExpr h = PrimExpr(i[2]) - pads[0], w = PrimExpr(i[3]) - pads[1];
        indices.Set(2, h);
        indices.Set(3, w);
        PrimExpr inside = PrimExpr(i[2]) >= pads[0] && h < height && PrimExpr(i[3]) >= pads[1] && w < width;
        return tir::if_then_else(inside, data(indices), tir::make_zero(data->dtype));
      },
      "pad", tag::kPad);
}

/// The elements that a strided window of one element meets, next to each other.
Tensor PackStrided(const Conv2DAttrs* a, const Tensor& data, const TensorTypeNode* type) {
  return te::Compute(
      {data->shape[0], data->shape[1], type->shape[2], type->shape[3], data->shape[4]},
      [&](const Array<Var>& i) {
        return data(Array<PrimExpr>{i[0], i[1], PrimExpr(i[2]) * a->strides[0], PrimExpr(i[3]) * a->strides[1], i[4]});
      },
      "pack_strided", tag::kPad, {}, {"n", "cb", "h", "w", "ci"});
}

/// Convolution of blocked data with all positions in one row, so that rows of any width fill tiles.
Array<Tensor> FlatCompute(const Conv2DAttrs* a, const Tensor& data, const Tensor& kernel, const TensorTypeNode* type) {
  te::IterVar ic = te::ReduceAxis(tir::Range(kernel->shape[1]), "ic");
  te::IterVar kh = te::ReduceAxis(tir::Range(kernel->shape[2]), "kh");
  te::IterVar kw = te::ReduceAxis(tir::Range(kernel->shape[3]), "kw");
  te::IterVar ii = te::ReduceAxis(tir::Range(kernel->shape[4]), "ici");
  PrimExpr width = type->shape[3];
  std::vector<int64_t> strides = a->strides;
  Tensor from = data;
  if (tir::is_one(kernel->shape[2]) && tir::is_one(kernel->shape[3]) && strides != std::vector<int64_t>{1, 1}) {
    from = PackStrided(a, data, type);
    strides = {1, 1};
  }
  Tensor flat = te::Compute(
      {type->shape[0], type->shape[1], type->shape[2] * width, type->shape[4]},
      [&](const Array<Var>& i) {
        PrimExpr row = tir::floordiv(i[2], width) * strides[0], column = tir::floormod(i[2], width) * strides[1];
        PrimExpr value = from(i[0], ic->var, row + PrimExpr(kh->var) * a->dilation[0],
                              column + PrimExpr(kw->var) * a->dilation[1], ii->var);
        return te::Sum(value * kernel(i[1], ic->var, kh->var, kw->var, ii->var, i[3]), {ic, kh, kw, ii});
      },
      "conv2d_NCHWc", "conv2d_NCHWc_flat", {}, {"n", "oc", "position", "oci"});
  return {te::Compute(
      type->shape,
      [&](const Array<Var>& i) { return flat(Array<PrimExpr>{i[0], i[1], PrimExpr(i[2]) * width + i[3], i[4]}); },
      "conv2d_NCHWc_output", "injective", {}, {"n", "oc", "oh", "ow", "oci"})};
}

/// Whether rows are better joined: they are short, or neighbours in one are as far apart as at the end of a row.
bool JoinsRows(const Conv2DAttrs* a, const Tensor& data, const Tensor& input, const Tensor& kernel,
               const TensorTypeNode* type) {
  constexpr int64_t kShortRow = 20;
  const int64_t* width = AsConstInt(type->shape[3]);
  if (a->groups != 1 || input->dtype != type->dtype) return false;
  bool pointwise = data == input && tir::is_one(kernel->shape[2]) && tir::is_one(kernel->shape[3]);
  return pointwise || (width != nullptr && *width < kShortRow);
}

/// data: (N, IC/ib, H, W, ib), or plain (N, IC, H, W); kernel: (OC/ob, IC/groups/ib, KH, KW, ib, ob), or
/// (OC/ob, IC/groups, KH, KW, ob) for plain data. Result: (N, OC/ob, OH, OW, ob).
Array<Tensor> BlockedConv2dCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const auto* type = out_type.as<TensorTypeNode>();
  Tensor data = PadSpatial(inputs[0], FourPads(a->padding));
  Tensor kernel = inputs[1];
  bool blocked = data.ndim() == 5;
  if (blocked && JoinsRows(a, data, inputs[0], kernel, type)) return FlatCompute(a, data, kernel, type);
  te::IterVar ic = te::ReduceAxis(tir::Range(kernel->shape[1]), "ic");
  te::IterVar kh = te::ReduceAxis(tir::Range(kernel->shape[2]), "kh");
  te::IterVar kw = te::ReduceAxis(tir::Range(kernel->shape[3]), "kw");
  Array<te::IterVar> reduce{ic, kh, kw};
  te::IterVar ii;
  if (blocked) {
    ii = te::ReduceAxis(tir::Range(kernel->shape[4]), "ici");
    reduce.push_back(ii);
  }
  DataType dtype = type->dtype;
  PrimExpr blocks_per_group = tir::floordiv(kernel->shape[0], PrimExpr(int64_t{a->groups}));
  Tensor out = te::Compute(type->shape,
                           [&](const Array<Var>& i) {
                             PrimExpr channel = ic->var;
                             if (a->groups > 1)
                               channel = tir::floordiv(i[1], blocks_per_group) * kernel->shape[1] + channel;
                             Array<PrimExpr> from{i[0], channel,
                                                  PrimExpr(i[2]) * a->strides[0] + PrimExpr(kh->var) * a->dilation[0],
                                                  PrimExpr(i[3]) * a->strides[1] + PrimExpr(kw->var) * a->dilation[1]};
                             Array<PrimExpr> weight{i[1], ic->var, kh->var, kw->var};
                             if (blocked) {
                               from.push_back(ii->var);
                               weight.push_back(ii->var);
                             }
                             weight.push_back(i[4]);
                             return te::Sum(tir::cast(dtype, data(from)) * tir::cast(dtype, kernel(weight)), reduce);
                           },
                           "conv2d_NCHWc", "conv2d_NCHWc", {}, {"n", "oc", "oh", "ow", "oci"});
  return {out};
}

/// data: (N, C/b, H, W, b), kernel: (C/b, 1, KH, KW, b). Result: (N, C/b, OH, OW, b).
Array<Tensor> BlockedDepthwiseCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const auto* type = out_type.as<TensorTypeNode>();
  Tensor data = PadSpatial(inputs[0], FourPads(a->padding));
  Tensor kernel = inputs[1];
  te::IterVar kh = te::ReduceAxis(tir::Range(kernel->shape[2]), "kh");
  te::IterVar kw = te::ReduceAxis(tir::Range(kernel->shape[3]), "kw");
  DataType dtype = type->dtype;
  Tensor out = te::Compute(type->shape,
                           [&](const Array<Var>& i) {
                             PrimExpr value =
                                 data(i[0], i[1], PrimExpr(i[2]) * a->strides[0] + PrimExpr(kh->var) * a->dilation[0],
                                      PrimExpr(i[3]) * a->strides[1] + PrimExpr(kw->var) * a->dilation[1], i[4]);
                             PrimExpr weight = kernel(i[1], PrimExpr(int64_t{0}), kh->var, kw->var, i[4]);
                             return te::Sum(tir::cast(dtype, value) * tir::cast(dtype, weight), {kh, kw});
                           },
                           "depthwise_conv2d_NCHWc", "depthwise_conv2d_NCHWc", {}, {"n", "c", "oh", "ow", "ci"});
  return {out};
}

Attrs WithLayouts(const Conv2DAttrs* a, const std::string& data, const std::string& kernel, const std::string& out) {
  auto node = MakeObject<Conv2DAttrs>(*a);
  node->channels.reset();  // the weight says, which may be filled up
  node->data_layout = data;
  node->kernel_layout = kernel;
  node->out_layout = out;
  return Attrs(ObjectPtr<Object>(node));
}

/// A pointwise convolution that can't be blocked: all positions in one row, so that vectors are full.
std::optional<LaidOutCall> FlattenPointwise(const CallNode* call, const Conv2DAttrs* a, LayoutArgs& args) {
  const auto* data = args.Type(0);
  const auto* kernel = args.Type(1);
  if (!IsStatic(data)) return std::nullopt;
  int64_t height = *AsConstInt(data->shape[2]), width = *AsConstInt(data->shape[3]);
  if (*AsConstInt(kernel->shape[2]) != 1 || *AsConstInt(kernel->shape[3]) != 1 || a->strides[0] != 1 ||
      a->strides[1] != 1 || FourPads(a->padding) != std::vector<int64_t>{0, 0, 0, 0} || height == 1 || width >= 64) {
    return std::nullopt;
  }
  Expr row = MakeReshape(args.Get(0, ""), std::vector<int64_t>{*AsConstInt(data->shape[0]), *AsConstInt(data->shape[1]),
                                                               1, height * width});
  Expr conv = relay::Call(call->op, {row, call->args[1]}, call->attrs, {}, call->span);
  return LaidOutCall{MakeReshape(conv, std::vector<int64_t>{*AsConstInt(data->shape[0]), *AsConstInt(kernel->shape[0]),
                                                            height, width}),
                     ""};
}

constexpr const char* kWinogradOption = "relay.PlanLayout.winograd";

/// A 3 x 3 convolution of stride 1 by Winograd's method, where that is faster and accurate.
std::optional<LaidOutCall> Winograd(const CallNode* call, const Conv2DAttrs* a, LayoutArgs& args,
                                    const runtime::NDArray& weight, const std::string& in, const std::string& out) {
  auto all = [](const std::vector<int64_t>& values, int64_t value) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
  };
  Array<PrimExpr> kernel = args.Type(1)->shape;
  Array<PrimExpr> result = call->type_as<TensorTypeNode>()->shape;
  if (AsConstInt(result[2]) == nullptr || AsConstInt(result[3]) == nullptr || in.empty() || a->groups != 1 ||
      *AsConstInt(kernel[2]) != 3 || *AsConstInt(kernel[3]) != 3 || !all(a->strides, 1) || !all(a->dilation, 1) ||
      !transform::PassContext::Current()->GetConfigBool(kWinogradOption, true)) {
    return std::nullopt;
  }
  const int64_t batch = AsConstInt(result[0]) != nullptr ? *AsConstInt(result[0]) : 1;
  WinogradShape shape{batch, *AsConstInt(kernel[1]), weight.shape()[0], *AsConstInt(result[2]), *AsConstInt(result[3])};
  for (int64_t m : WinogradTiles(shape)) {
    if (!WinogradIsAccurate(weight, m)) continue;
    Expr transformed = relay::Constant(WinogradWeight(weight, m, BlockOf(in), BlockOf(out)));
    static const Op op = Op::Get("nn.contrib_conv2d_winograd_NCHWc");
    return LaidOutCall{relay::Call(op, {args.Get(0, in), transformed}, WithLayouts(a, in, "OIHW", out), {}, call->span),
                       out};
  }
  return std::nullopt;
}

/// The blocked layout for `channels` of which each of `groups` groups has whole blocks; "" where there is none.
std::string GroupedLayout(int64_t channels, int64_t groups) {
  for (int64_t block : {16, 8}) {
    if (channels % groups == 0 && channels / groups % block == 0) return StrCat("NCHW", block, "c");
  }
  return "";
}

/// Channels to which `channels` that don't divide into blocks are filled up, if that costs less than it gains; else 0.
int64_t FilledChannels(int64_t channels) {
  constexpr int64_t kBlock = 16, kHalf = 8;
  const int64_t whole = (channels + kBlock - 1) / kBlock * kBlock, half = (channels + kHalf - 1) / kHalf * kHalf;
  if (whole * 7 <= channels * 8) return whole;
  return half * 2 <= channels * 3 ? half : 0;
}

/// The weight (OIHW) with zeros for more outputs.
runtime::NDArray FillOutputs(const runtime::NDArray& weight, int64_t outputs) {
  std::vector<int64_t> shape(weight.shape().begin(), weight.shape().end());
  shape[0] = outputs;
  runtime::NDArray result = runtime::NDArray::Empty(shape, DataType::Float(32));
  auto* to = result.Data<float>();
  std::fill(std::copy(weight.Data<float>(), weight.Data<float>() + weight.size(), to), to + result.size(), 0.0F);
  return result;
}

/// A convolution whose outputs don't divide into blocks: with more of them that nobody reads.
std::optional<LaidOutCall> FilledConv2d(const CallNode* call, const Conv2DAttrs* a, LayoutArgs& args) {
  const runtime::NDArray weight = call->args[1].as<ConstantNode>()->data;
  const int64_t outputs = weight.shape()[0], filled = FilledChannels(outputs);
  const auto* type = call->type_as<TensorTypeNode>();
  if (a->groups != 1 || filled == 0 || type == nullptr) return std::nullopt;
  const std::string out = BlockedLayout(filled), o = std::to_string(BlockOf(out)) + "o";
  const std::string in = args.Layout(0).empty() ? BlockedLayout(weight.shape()[1]) : args.Layout(0);
  const runtime::NDArray more = FillOutputs(weight, filled);
  Expr blocked;
  if (auto winograd = Winograd(call, a, args, more, in, out)) {
    blocked = winograd->expr;
  } else {
    const std::string kernel_layout = in.empty() ? "OIHW" + o : "OIHW" + std::to_string(BlockOf(in)) + "i" + o;
    static const Op op = Op::Get("nn.contrib_conv2d_NCHWc");
    blocked = relay::Call(op, {args.Get(0, in), relay::LayoutTransform(relay::Constant(more), "OIHW", kernel_layout)},
                          WithLayouts(a, in.empty() ? "NCHW" : in, kernel_layout, out), {}, call->span);
  }
  Expr plain = relay::LayoutTransform(blocked, out, "NCHW");
  if (!IsStatic(type)) {
    return LaidOutCall{MakeStridedSlice(plain, {0}, {outputs}, {1}, std::vector<int64_t>{1}), ""};
  }
  std::vector<int64_t> end;
  for (const PrimExpr& dim : type->shape) end.push_back(*AsConstInt(dim));
  return LaidOutCall{MakeStridedSlice(plain, {0, 0, 0, 0}, end), ""};
}

/// Runs nn.conv2d with constant float weights blocked where its output channels divide into blocks.
std::optional<LaidOutCall> Conv2dLayoutRule(const CallNode* call, LayoutArgs& args) {
  const auto* a = call->attrs.as<Conv2DAttrs>();
  const auto* data = args.Type(0);
  const auto* kernel = args.Type(1);
  if (a == nullptr || a->data_layout != "NCHW" || a->kernel_layout != "OIHW" || data->shape.size() != 4 ||
      AsConstInt(data->shape[1]) == nullptr || !IsStatic(kernel) ||
      !(a->out_layout.empty() || a->out_layout == "NCHW") || data->dtype != DataType::Float(32) ||
      call->args[1].as<ConstantNode>() == nullptr) {
    return std::nullopt;
  }
  int64_t in_channels = *AsConstInt(data->shape[1]), out_channels = *AsConstInt(kernel->shape[0]);
  std::string out = BlockedLayout(out_channels);
  if (out.empty()) {
    auto filled = FilledConv2d(call, a, args);
    return filled ? filled : FlattenPointwise(call, a, args);
  }
  std::string o = std::to_string(BlockOf(out)) + "o";
  std::string in = args.Layout(0).empty() ? BlockedLayout(in_channels) : args.Layout(0);
  Expr weight = call->args[1];
  bool depthwise = a->groups > 1 && a->groups == in_channels && out_channels == in_channels;
  if (depthwise) {
    Expr w = relay::LayoutTransform(weight, "OIHW", "OIHW" + o);
    static const Op op = Op::Get("nn.contrib_depthwise_conv2d_NCHWc");
    return LaidOutCall{relay::Call(op, {args.Get(0, out), w}, WithLayouts(a, out, "OIHW" + o, out), {}, call->span),
                       out};
  }
  if (a->groups > 1) {
    out = GroupedLayout(out_channels, a->groups);
    const std::string fits = GroupedLayout(in_channels, a->groups);
    if (out.empty() || fits.empty()) return FlattenPointwise(call, a, args);
    if (in.empty() || BlockOf(in) > BlockOf(fits)) in = fits;
    o = std::to_string(BlockOf(out)) + "o";
  }
  if (auto winograd = Winograd(call, a, args, call->args[1].as<ConstantNode>()->data, in, out)) return winograd;
  std::string kernel_layout = in.empty() ? "OIHW" + o : "OIHW" + std::to_string(BlockOf(in)) + "i" + o;
  Expr w = relay::LayoutTransform(weight, "OIHW", kernel_layout);
  static const Op op = Op::Get("nn.contrib_conv2d_NCHWc");
  Attrs attrs = WithLayouts(a, in.empty() ? "NCHW" : in, kernel_layout, out);
  return LaidOutCall{relay::Call(op, {args.Get(0, in), w}, attrs, {}, call->span), out};
}

}  // namespace

void RegisterBlockedConvOps() {
  OpRegistration("nn.contrib_conv2d_NCHWc").Set(kCompute, FTECompute(BlockedConv2dCompute));
  OpRegistration("nn.contrib_depthwise_conv2d_NCHWc").Set(kCompute, FTECompute(BlockedDepthwiseCompute));
  transform::RegisterPassConfig(kWinogradOption, "bool",
                                "3 x 3 convolutions by Winograd's method where accurate (true)");
  OpRegistration("nn.conv2d").Set(relay::kLayoutRule, relay::FLayoutRule(Conv2dLayoutRule));
  RegisterConvTransposeLayoutRule();
}

}  // namespace treadle::ops
