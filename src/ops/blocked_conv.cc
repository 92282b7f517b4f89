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

/// A 3 x 3 convolution of stride 1 or 2 by Winograd's method, where that is faster and accurate.
std::optional<LaidOutCall> Winograd(const CallNode* call, const Conv2DAttrs* a, LayoutArgs& args,
                                    const runtime::NDArray& weight, const std::string& in, const std::string& out) {
  auto all = [](const std::vector<int64_t>& values, int64_t value) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
  };
  Array<PrimExpr> kernel = args.Type(1)->shape;
  Array<PrimExpr> result = call->type_as<TensorTypeNode>()->shape;
  if (AsConstInt(result[2]) == nullptr || AsConstInt(result[3]) == nullptr || in.empty() || a->groups != 1 ||
      *AsConstInt(kernel[2]) != 3 || *AsConstInt(kernel[3]) != 3 || !all(a->strides, a->strides[0]) ||
      !all(a->dilation, 1) || !transform::PassContext::Current()->GetConfigBool(kWinogradOption, true)) {
    return std::nullopt;
  }
  const int64_t batch = AsConstInt(result[0]) != nullptr ? *AsConstInt(result[0]) : 1;
  WinogradShape shape{
      batch, weight.shape()[1], weight.shape()[0], *AsConstInt(result[2]), *AsConstInt(result[3]), a->strides[0]};
  for (int64_t side : WinogradSides(shape)) {
    if (!WinogradIsAccurate(weight, side)) continue;
    Expr transformed = relay::Constant(WinogradWeight(weight, side, BlockOf(in), BlockOf(out)));
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

/// The weight (OIHW) with zeros for more outputs and inputs.
runtime::NDArray FillChannels(const runtime::NDArray& weight, int64_t outputs, int64_t inputs) {
  std::vector<int64_t> shape(weight.shape().begin(), weight.shape().end());
  if (shape[0] == outputs && shape[1] == inputs) return weight;
  const int64_t taps = shape[2] * shape[3], row = shape[1] * taps;
  runtime::NDArray result = runtime::NDArray::Empty({outputs, inputs, shape[2], shape[3]}, DataType::Float(32));
  const auto* from = weight.Data<float>();
  auto* to = result.Data<float>();
  std::fill(to, to + result.size(), 0.0F);
  for (int64_t o = 0; o < shape[0]; ++o) std::copy(from + o * row, from + (o + 1) * row, to + o * inputs * taps);
  return result;
}

/// How many groups, taken as one, have whole blocks of inputs and outputs; 0 where too many zeros would be multiplied.
int64_t GroupsToMerge(int64_t groups, int64_t inputs, int64_t outputs) {
  for (int64_t count : {1, 2, 4}) {
    if (groups % count == 0 && inputs * count % 8 == 0 && outputs * count % 8 == 0) return count;
  }
  return 0;
}

/// The weight of `groups` groups, `count` of which become one: zeros between channels of different ones.
runtime::NDArray MergeGroups(const runtime::NDArray& weight, int64_t groups, int64_t count) {
  if (count == 1) return weight;
  std::vector<int64_t> shape(weight.shape().begin(), weight.shape().end());
  const int64_t row = shape[1] * shape[2] * shape[3], outputs = shape[0] / groups;
  runtime::NDArray result =
      runtime::NDArray::Empty({shape[0], shape[1] * count, shape[2], shape[3]}, DataType::Float(32));
  const auto* from = weight.Data<float>();
  auto* to = result.Data<float>();
  std::fill(to, to + result.size(), 0.0F);
  for (int64_t o = 0; o < shape[0]; ++o) {
    const int64_t place = o / outputs % count;
    std::copy(from + o * row, from + (o + 1) * row, to + (o * count + place) * row);
  }
  return result;
}

/// The layout for `channels` outputs or inputs of a convolution whose result has `positions` places (-1: unknown).
std::string LayoutFor(int64_t channels, int64_t positions) {
  const std::string layout = relay::FilledLayout(channels);
  // Of one vector per channel little is computed: blocks of any kind are better than changing the layout.
  return layout.empty() && positions == 1 ? "NCHW8c" : layout;
}

/// A convolution of each channel by itself.
LaidOutCall DepthwiseConv2d(const CallNode* call, const Conv2DAttrs* a, LayoutArgs& args, const std::string& layout,
                            int64_t channels) {
  const int64_t filled = relay::ChannelsIn(layout, channels);
  const std::string kernel_layout = StrCat("OIHW", BlockOf(layout), "o");
  Expr weight = relay::Constant(FillChannels(call->args[1].as<ConstantNode>()->data, filled, 1));
  auto attrs = MakeObject<Conv2DAttrs>(*WithLayouts(a, layout, kernel_layout, layout).as<Conv2DAttrs>());
  attrs->groups = static_cast<decltype(attrs->groups)>(filled);
  static const Op op = Op::Get("nn.contrib_depthwise_conv2d_NCHWc");
  Expr blocked = relay::Call(op, {args.Get(0, layout), relay::LayoutTransform(weight, "OIHW", kernel_layout)},
                             Attrs(ObjectPtr<Object>(attrs)), {}, call->span);
  return LaidOutCall{blocked, layout};
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
  const auto* type = call->type_as<TensorTypeNode>();
  const int64_t in_channels = *AsConstInt(data->shape[1]), out_channels = *AsConstInt(kernel->shape[0]);
  const int64_t positions = IsStatic(type) ? *AsConstInt(type->shape[2]) * *AsConstInt(type->shape[3]) : -1;
  runtime::NDArray weight = call->args[1].as<ConstantNode>()->data;
  std::string out = LayoutFor(out_channels, positions);
  std::string in = args.Layout(0);
  if (a->groups > 1 && a->groups == in_channels && out_channels == in_channels) {
    if (in.empty()) in = out;
    return in.empty() ? std::nullopt : std::optional(DepthwiseConv2d(call, a, args, in, in_channels));
  }
  int64_t groups = a->groups;
  if (groups > 1) {
    const int64_t merged =
        in_channels % groups != 0 ? 0 : GroupsToMerge(groups, in_channels / groups, out_channels / groups);
    if (merged != 1) {
      // A plain row of positions takes less time than multiplying as many zeros as numbers.
      std::optional<LaidOutCall> flat = FlattenPointwise(call, a, args);
      if (flat || merged == 0) return flat;
    }
    weight = MergeGroups(weight, groups, merged);
    groups /= merged;
    out = GroupedLayout(out_channels, groups);
    const std::string fits = GroupedLayout(in_channels, groups);
    if (in.empty() || BlockOf(in) > BlockOf(fits)) in = fits;
  }
  if (out.empty()) return FlattenPointwise(call, a, args);
  constexpr int64_t kLeastFilled = 8;
  if (in.empty()) in = in_channels >= kLeastFilled ? LayoutFor(in_channels, positions) : BlockedLayout(in_channels);
  if (groups == 1) {
    weight = FillChannels(weight, relay::ChannelsIn(out, out_channels), relay::ChannelsIn(in, in_channels));
    if (auto winograd = Winograd(call, a, args, weight, in, out)) return winograd;
  }
  const std::string o = std::to_string(BlockOf(out)) + "o";
  std::string kernel_layout = in.empty() ? "OIHW" + o : "OIHW" + std::to_string(BlockOf(in)) + "i" + o;
  Expr w = relay::LayoutTransform(groups == 1 && weight.same_as(call->args[1].as<ConstantNode>()->data)
                                      ? call->args[1]
                                      : Expr(relay::Constant(weight)),
                                  "OIHW", kernel_layout);
  static const Op op = Op::Get("nn.contrib_conv2d_NCHWc");
  auto attrs = MakeObject<Conv2DAttrs>(*WithLayouts(a, in.empty() ? "NCHW" : in, kernel_layout, out).as<Conv2DAttrs>());
  attrs->groups = static_cast<decltype(attrs->groups)>(groups);
  return LaidOutCall{relay::Call(op, {args.Get(0, in), w}, Attrs(ObjectPtr<Object>(attrs)), {}, call->span), out};
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
