// SPDX-License-Identifier: Apache-2.0
// Two-dimensional convolution on channel-blocked activations (NCHW16c): the form in which CPUs run convolutions.
// The inner channels fill a vector register, so that one input element meets a vector of output channels.
#include <algorithm>

#include "ops/blocked_conv.h"
#include "ops/change_layout.h"
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

/// What a convolution sums over.
struct Sum {
  te::IterVar ic, kh, kw, ii;  ///< input channels: blocks, and in a block; rows and columns of the kernel
  PrimExpr outputs, inputs;    ///< blocks of a group
  bool grouped;
  std::optional<Tensor> channels;  ///< where each input channel is in the data; none: where its block says
  PrimExpr block;                  ///< channels in a block of the data

  Sum(const Conv2DAttrs* a, const Tensor& data, const Tensor& kernel, std::optional<Tensor> channels)
      : ic(te::ReduceAxis(tir::Range(kernel->shape[1]), "ic")),
        kh(te::ReduceAxis(tir::Range(kernel->shape[2]), "kh")),
        kw(te::ReduceAxis(tir::Range(kernel->shape[3]), "kw")),
        ii(te::ReduceAxis(tir::Range(kernel->shape[4]), "ici")),
        outputs(tir::floordiv(kernel->shape[0], PrimExpr(int64_t{a->groups}))),
        inputs(kernel->shape[1]),
        grouped(a->groups > 1),
        channels(std::move(channels)),
        block(data->shape[4]) {}
  Array<te::IterVar> Axes() const { return {ic, kh, kw, ii}; }
  /// The element of `data` at that row and column for a block of outputs.
  PrimExpr Element(const Tensor& data, const PrimExpr& n, const PrimExpr& out, const PrimExpr& row,
                   const PrimExpr& column) const {
    PrimExpr channel = ic->var, lane = ii->var;
    if (grouped) channel = tir::floordiv(out, outputs) * inputs + channel;
    if (channels) {
      // Blocks are of 8 or 16 channels, no index is negative.
      const int64_t size = *AsConstInt(block);
      const PrimExpr place = tir::cast(DataType::Int(64), (*channels)(channel));
      channel = tir::right_shift(place, PrimExpr(int64_t{size == 16 ? 4 : 3}));
      lane = tir::bitwise_and(place, PrimExpr(size - 1));
    }
    return data(n, channel, row, column, lane);
  }
};

/// For schedules: how many groups there are.
Map<String, ObjectRef> GroupsNote(const Conv2DAttrs* a) {
  return {{String("groups"), IntImm(DataType::Int(64), a->groups)}};
}

/// Convolution of blocked data with all positions in one row, so that rows of any width fill tiles.
Array<Tensor> FlatCompute(const Conv2DAttrs* a, const Tensor& data, const Tensor& kernel,
                          const std::optional<Tensor>& channels, const TensorTypeNode* type) {
  const Sum sum(a, data, kernel, channels);
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
        PrimExpr value = sum.Element(from, i[0], i[1], row + PrimExpr(sum.kh->var) * a->dilation[0],
                                     column + PrimExpr(sum.kw->var) * a->dilation[1]);
        return te::Sum(value * kernel(i[1], sum.ic->var, sum.kh->var, sum.kw->var, sum.ii->var, i[3]), sum.Axes());
      },
      "conv2d_NCHWc", "conv2d_NCHWc_flat", GroupsNote(a), {"n", "oc", "position", "oci"});
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
  if (input->dtype != type->dtype) return false;
  bool pointwise = data == input && tir::is_one(kernel->shape[2]) && tir::is_one(kernel->shape[3]);
  return pointwise || (a->groups == 1 && width != nullptr && *width < kShortRow);
}

/// A convolution of plain data: few input channels.
Array<Tensor> FirstConvolution(const Conv2DAttrs* a, const Tensor& data, const Tensor& kernel,
                               const TensorTypeNode* type) {
  te::IterVar ic = te::ReduceAxis(tir::Range(kernel->shape[1]), "ic");
  te::IterVar kh = te::ReduceAxis(tir::Range(kernel->shape[2]), "kh");
  te::IterVar kw = te::ReduceAxis(tir::Range(kernel->shape[3]), "kw");
  return {te::Compute(type->shape,
                      [&](const Array<Var>& i) {
                        PrimExpr value =
                            data(i[0], ic->var, PrimExpr(i[2]) * a->strides[0] + PrimExpr(kh->var) * a->dilation[0],
                                 PrimExpr(i[3]) * a->strides[1] + PrimExpr(kw->var) * a->dilation[1]);
                        PrimExpr weight = kernel(i[1], ic->var, kh->var, kw->var, i[4]);
                        return te::Sum(tir::cast(type->dtype, value) * tir::cast(type->dtype, weight), {ic, kh, kw});
                      },
                      "conv2d_NCHWc", "conv2d_NCHWc", {}, {"n", "oc", "oh", "ow", "oci"})};
}

/// data: (N, IC/ib, H, W, ib), or plain (N, IC, H, W); kernel: (OC/ob, IC/groups/ib, KH, KW, ib, ob), or
/// (OC/ob, IC, KH, KW, ob) for plain data. Result: (N, OC/ob, OH, OW, ob). A third input says where in the data each
/// input channel is; then ib of the kernel is 1.
Array<Tensor> BlockedConv2dCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const auto* type = out_type.as<TensorTypeNode>();
  Tensor data = PadSpatial(inputs[0], FourPads(a->padding));
  Tensor kernel = inputs[1];
  if (data.ndim() != 5) return FirstConvolution(a, data, kernel, type);
  std::optional<Tensor> channels;
  if (inputs.size() > 2) channels = inputs[2];
  if (JoinsRows(a, data, inputs[0], kernel, type)) return FlatCompute(a, data, kernel, channels, type);
  const Sum sum(a, data, kernel, channels);
  DataType dtype = type->dtype;
  Tensor out = te::Compute(type->shape,
                           [&](const Array<Var>& i) {
                             PrimExpr value =
                                 sum.Element(data, i[0], i[1],
                                             PrimExpr(i[2]) * a->strides[0] + PrimExpr(sum.kh->var) * a->dilation[0],
                                             PrimExpr(i[3]) * a->strides[1] + PrimExpr(sum.kw->var) * a->dilation[1]);
                             PrimExpr weight = kernel(i[1], sum.ic->var, sum.kh->var, sum.kw->var, sum.ii->var, i[4]);
                             return te::Sum(tir::cast(dtype, value) * tir::cast(dtype, weight), sum.Axes());
                           },
                           "conv2d_NCHWc", "conv2d_NCHWc", GroupsNote(a), {"n", "oc", "oh", "ow", "oci"});
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
  node->data_layout = relay::WithoutGroups(data);
  node->kernel_layout = kernel;
  node->out_layout = relay::WithoutGroups(out);
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

/// The weight (OIHW) with entry i of dimension `axis` at places[i] of `extent`, zeros elsewhere.
runtime::NDArray Spread(const runtime::NDArray& weight, size_t axis, const std::vector<int64_t>& places,
                        int64_t extent) {
  std::vector<int64_t> shape(weight.shape().begin(), weight.shape().end());
  if (shape[axis] == extent && std::is_sorted(places.begin(), places.end())) return weight;
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  shape[axis] = extent;
  runtime::NDArray result = runtime::NDArray::Empty(shape, DataType::Float(32));
  const auto* from = weight.Data<float>();
  auto* to = result.Data<float>();
  std::fill(to, to + result.size(), 0.0F);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t place : places) {
      std::copy(from, from + inner, to + (o * extent + place) * inner);
      from += inner;
    }
  }
  return result;
}

runtime::NDArray SpreadOutputs(const runtime::NDArray& weight, const std::string& layout) {
  const int64_t channels = weight.shape()[0];
  return Spread(weight, 0, relay::ChannelPlaces(layout, channels), relay::ChannelsIn(layout, channels));
}

/// How many groups, taken as one, have whole blocks of outputs; 0 where too many zeros would be multiplied.
int64_t GroupsToMerge(int64_t groups, int64_t inputs, int64_t outputs) {
  for (int64_t count : {2, 4}) {
    if (groups % count == 0 && inputs * count % 8 == 0 && outputs * count % 8 == 0) return count;
  }
  return 0;
}

/// The weight of `groups` groups, `count` of which become one: zeros between channels of different ones.
runtime::NDArray MergeGroups(const runtime::NDArray& weight, int64_t groups, int64_t count) {
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
std::string LayoutFor(int64_t channels, int64_t positions, int lanes) {
  const std::string layout = relay::FilledLayout(channels, lanes);
  // Of one vector per channel little is computed: blocks of any kind are better than changing the layout.
  return layout.empty() && positions == 1 ? "NCHW8c" : layout;
}

/// A convolution of each channel by itself.
LaidOutCall DepthwiseConv2d(const CallNode* call, const Conv2DAttrs* a, LayoutArgs& args, const std::string& layout,
                            int64_t channels) {
  const int64_t filled = relay::ChannelsIn(layout, channels);
  const std::string kernel_layout = StrCat("OIHW", BlockOf(layout), "o");
  Expr weight = relay::Constant(SpreadOutputs(call->args[1].as<ConstantNode>()->data, layout));
  auto attrs = MakeObject<Conv2DAttrs>(*WithLayouts(a, layout, kernel_layout, layout).as<Conv2DAttrs>());
  attrs->groups = static_cast<decltype(attrs->groups)>(filled);
  static const Op op = Op::Get("nn.contrib_depthwise_conv2d_NCHWc");
  Expr blocked = relay::Call(op, {args.Get(0, layout), LayoutTransform(weight, "OIHW", kernel_layout)},
                             Attrs(ObjectPtr<Object>(attrs)), {}, call->span);
  return LaidOutCall{blocked, layout};
}

/// The convolution of an argument in layout `in` ("": plain). `weight`: OIHW, with the channels that fill blocks.
LaidOutCall BlockedConv2d(const CallNode* call, const Conv2DAttrs* a, LayoutArgs& args, const runtime::NDArray& weight,
                          const std::string& in, const std::string& out, int64_t groups) {
  const std::string o = std::to_string(BlockOf(out)) + "o";
  const std::string kernel_layout = in.empty() ? "OIHW" + o : StrCat("OIHW", BlockOf(in), "i", o);
  const bool same = weight.same_as(call->args[1].as<ConstantNode>()->data);
  Expr w = LayoutTransform(same ? call->args[1] : Expr(relay::Constant(weight)), "OIHW", kernel_layout);
  auto attrs = MakeObject<Conv2DAttrs>(*WithLayouts(a, in.empty() ? "NCHW" : in, kernel_layout, out).as<Conv2DAttrs>());
  attrs->groups = static_cast<decltype(attrs->groups)>(groups);
  static const Op op = Op::Get("nn.contrib_conv2d_NCHWc");
  return LaidOutCall{relay::Call(op, {args.Get(0, in), w}, Attrs(ObjectPtr<Object>(attrs)), {}, call->span), out};
}

/// The same for channels that aren't in the order of the weight's, or where many only fill blocks. Only outputs of
/// `weight` are filled.
LaidOutCall SelectingConv2d(const CallNode* call, const Conv2DAttrs* a, LayoutArgs& args,
                            const runtime::NDArray& weight, const std::string& in, const std::string& out,
                            int64_t groups) {
  const std::string kernel_layout = StrCat("OIHW1i", BlockOf(out), "o");
  Expr w = LayoutTransform(relay::Constant(weight), "OIHW", kernel_layout);
  const std::vector<int64_t> places = relay::ChannelPlaces(in, weight.shape()[1] * groups);
  runtime::NDArray channels = runtime::NDArray::Empty({static_cast<int64_t>(places.size())}, DataType::Int(32));
  std::copy(places.begin(), places.end(), channels.Data<int32_t>());
  auto attrs = MakeObject<Conv2DAttrs>(*WithLayouts(a, in, kernel_layout, out).as<Conv2DAttrs>());
  attrs->groups = static_cast<decltype(attrs->groups)>(groups);
  static const Op op = Op::Get("nn.contrib_conv2d_select_NCHWc");
  return LaidOutCall{
      relay::Call(op, {args.Get(0, in), w, relay::Constant(channels)}, Attrs(ObjectPtr<Object>(attrs)), {}, call->span),
      out};
}

/// A convolution of several groups, each of several channels.
std::optional<LaidOutCall> GroupedConv2d(const CallNode* call, const Conv2DAttrs* a, LayoutArgs& args,
                                         int64_t in_channels, int64_t out_channels) {
  int64_t groups = a->groups;
  runtime::NDArray weight = call->args[1].as<ConstantNode>()->data;
  std::string out = relay::FilledLayout(out_channels, args.lanes(), groups), in = args.Layout(0);
  if (out.empty()) {
    const int64_t merged = GroupsToMerge(groups, in_channels / groups, out_channels / groups);
    // A plain row of positions takes less time than multiplying as many zeros as numbers.
    std::optional<LaidOutCall> flat = FlattenPointwise(call, a, args);
    if (flat || merged == 0) return flat;
    weight = MergeGroups(weight, groups, merged);
    groups /= merged;
    out = relay::FilledLayout(out_channels, args.lanes(), groups);
  }
  if (in.empty()) in = relay::FilledLayout(in_channels, args.lanes(), groups);
  if (in.empty()) in = relay::FilledLayout(in_channels, args.lanes());
  if (in.empty() || out.empty()) return FlattenPointwise(call, a, args);
  weight = SpreadOutputs(weight, out);
  const bool whole_blocks = relay::IsInOrder(in) && in_channels / groups % BlockOf(in) == 0;
  if (whole_blocks) return BlockedConv2d(call, a, args, weight, in, out, groups);
  return SelectingConv2d(call, a, args, weight, in, out, groups);
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
  const int lanes = args.lanes();
  std::string in = args.Layout(0);
  if (a->groups > 1 && a->groups == in_channels && out_channels == in_channels) {
    if (in.empty()) in = LayoutFor(out_channels, positions, lanes);
    return in.empty() ? std::nullopt : std::optional(DepthwiseConv2d(call, a, args, in, in_channels));
  }
  if (a->groups > 1) return GroupedConv2d(call, a, args, in_channels, out_channels);
  const std::string out = LayoutFor(out_channels, positions, lanes);
  if (out.empty()) return FlattenPointwise(call, a, args);
  constexpr int64_t kLeastFilled = 8;
  if (in.empty()) {
    in = in_channels >= kLeastFilled ? LayoutFor(in_channels, positions, lanes) : BlockedLayout(in_channels);
  }
  runtime::NDArray weight = SpreadOutputs(call->args[1].as<ConstantNode>()->data, out);
  const int64_t filled = relay::ChannelsIn(in, in_channels);
  const runtime::NDArray whole = in.empty() ? weight : Spread(weight, 1, relay::ChannelPlaces(in, in_channels), filled);
  if (auto winograd = Winograd(call, a, args, whole, in, out)) return winograd;
  if (!in.empty() && !relay::IsInOrder(in) && filled > in_channels)
    return SelectingConv2d(call, a, args, weight, in, out, 1);
  return BlockedConv2d(call, a, args, whole, in, out, 1);
}

}  // namespace

void RegisterBlockedConvOps() {
  OpRegistration("nn.contrib_conv2d_NCHWc").Set(kCompute, FTECompute(BlockedConv2dCompute));
  OpRegistration("nn.contrib_conv2d_select_NCHWc").Set(kCompute, FTECompute(BlockedConv2dCompute));
  OpRegistration("nn.contrib_depthwise_conv2d_NCHWc").Set(kCompute, FTECompute(BlockedDepthwiseCompute));
  transform::RegisterPassConfig(kWinogradOption, "bool",
                                "3 x 3 convolutions by Winograd's method where accurate (true)");
  OpRegistration("nn.conv2d").Set(relay::kLayoutRule, relay::FLayoutRule(Conv2dLayoutRule));
  RegisterConvTransposeLayoutRule();
}

}  // namespace treadle::ops
