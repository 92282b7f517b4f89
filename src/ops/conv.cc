// SPDX-License-Identifier: Apache-2.0
// Convolutions of 1, 2 and 3 spatial dimensions. Semantics: ONNX Conv-1 to Conv-22 (cross-correlation).
#include "ops/conv.h"

#include <cctype>

#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/layout.h"
#include "ops/macs.h"
#include "ops/te_util.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/constant_operands.h"
#include "treadle/relay/rewrite_rules.h"
#include "treadle/te/stage.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ConvAttrs);
TREADLE_DEFINE_NODE(Conv1DAttrs);
TREADLE_DEFINE_NODE(Conv2DAttrs);
TREADLE_DEFINE_NODE(Conv3DAttrs);
TREADLE_DEFINE_NODE(RowConvProblemNode);

std::string SpatialNames(size_t rank) { return std::string("DHW").substr(3 - rank); }

DataType ConvOutDType(DataType data, DataType out) { return out.is_void() ? data : out; }

ConvSizes ResolveConv(const ConvAttrs* attrs, size_t rank, const Array<PrimExpr>& data, DataType data_dtype,
                      const Array<PrimExpr>* weight) {
  ConvSizes sizes;
  std::string spatial = SpatialNames(rank);
  CheckSpatial(attrs->strides, rank, 1, "strides");
  CheckSpatial(attrs->dilation, rank, 1, "dilation");
  if (attrs->groups < 1) throw ShapeError(StrCat("groups must be at least 1, is ", attrs->groups));
  sizes.padding = NormalizePadding(attrs->padding, rank);
  const Layout data_layout = attrs->ParsedDataLayout();
  for (size_t i = 0; i < rank; ++i) {
    if (data_layout.BlockOf(spatial[i]) == 1 || sizes.padding[i] + sizes.padding[rank + i] == 0) continue;
    throw ShapeError(StrCat("padding of dimension ", spatial[i], ", which is blocked in layout ", data_layout.str(),
                            ", isn't implemented"));
  }
  sizes.data = LogicalShape(data_layout, data, "NC" + spatial, "data");
  if (weight != nullptr) sizes.weight = LogicalShape(attrs->ParsedKernelLayout(), *weight, "OI" + spatial, "weight");
  bool inferable = attrs->channels.has_value() && attrs->kernel_size.has_value();
  if (weight == nullptr && !inferable) return sizes;

  PrimExpr in_channels = sizes.data[1];
  int64_t groups = attrs->groups;
  if (DimValue(in_channels) >= 0 && DimValue(in_channels) % groups != 0) {
    throw ShapeError(StrCat("groups ", groups, " doesn't divide the input's ", DimValue(in_channels), " channels"));
  }
  // Depthwise weights may also be (channels, multiplier, window).
  sizes.multiplier_form = weight != nullptr && groups > 1 && DimValue(in_channels) == groups &&
                          DimValue(sizes.weight[0]) == groups && DimValue(sizes.weight[1]) > 1;
  if (attrs->channels.has_value()) {
    sizes.channels = Dim(*attrs->channels);
  } else {
    sizes.channels = sizes.multiplier_form ? DimMul(sizes.weight[0], sizes.weight[1]) : sizes.weight[0];
  }
  int64_t channels = DimValue(sizes.channels);
  if (AsConstInt(sizes.channels) != nullptr && (channels < 0 || channels % groups != 0)) {
    throw ShapeError(StrCat("groups ", groups, " doesn't divide the ", channels, " output channels"));
  }
  if (attrs->kernel_size.has_value()) {
    CheckSpatial(*attrs->kernel_size, rank, 1, "kernel_size");
    sizes.kernel = *attrs->kernel_size;
  } else {
    for (size_t i = 0; i < rank; ++i) {
      if (DimValue(sizes.weight[2 + i]) < 1) throw ShapeError("the weight's window must be of constant, positive size");
      sizes.kernel.push_back(DimValue(sizes.weight[2 + i]));
    }
  }
  if (sizes.multiplier_form) {
    sizes.weight = {in_channels, DimFloorDiv(sizes.channels, in_channels)};
  } else {
    sizes.weight = {sizes.channels, DimFloorDiv(in_channels, Dim(groups))};
  }
  sizes.out = {sizes.data[0], sizes.channels};
  for (size_t i = 0; i < rank; ++i) {
    sizes.weight.push_back(Dim(sizes.kernel[i]));
    int64_t span = CheckedAdd<int64_t>(CheckedMul(sizes.kernel[i] - 1, attrs->dilation[i], "dilated kernel"), 1);
    int64_t pad = CheckedAdd(sizes.padding[i], sizes.padding[rank + i], "padding");
    sizes.out.push_back(WindowDim(sizes.data[2 + i], pad, span, attrs->strides[i]));
  }
  sizes.out_dtype = ConvOutDType(data_dtype, attrs->out_dtype);
  sizes.resolved = true;
  return sizes;
}

void RequireSizes(const InferContext& context, const ConvSizes& sizes, const ConvAttrs* attrs) {
  RequireMultiple(context, sizes.data[1], attrs->groups);
  const size_t rank = sizes.kernel.size();
  for (size_t i = 0; i < rank; ++i) {
    RequireWindow(context, sizes.data[2 + i], sizes.padding[i] + sizes.padding[rank + i],
                  (sizes.kernel[i] - 1) * attrs->dilation[i] + 1);
  }
}

namespace {

template <size_t kRank>
Type ConvInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ConvAttrs>();
  bool known = IsKnown(context.type(1));
  const auto* weight = known ? context.Tensor(1, "weight") : nullptr;
  ConvSizes sizes = ResolveConv(attrs, kRank, data->shape, data->dtype, known ? &weight->shape : nullptr);
  if (!sizes.resolved) return Type();
  RequireSizes(context, sizes, attrs);
  DataType weight_dtype = data->dtype;
  if (known && weight->dtype != data->dtype) {
    if (!weight->dtype.is_integral() || !data->dtype.is_integral()) CheckSameDType(data, weight);
    weight_dtype = weight->dtype;
  }
  std::string spatial = SpatialNames(kRank);
  context.Expect(1, TensorType(PhysicalShape(attrs->ParsedKernelLayout(), sizes.weight, "OI" + spatial), weight_dtype));
  return TensorType(PhysicalShape(attrs->ParsedOutLayout(), sizes.out, "NC" + spatial), sizes.out_dtype);
}

/// As if the data were plain and had the channels that argument 2 names.
template <typename F>
auto WithSelected(const Conv2DAttrs* attrs, const Array<PrimExpr>& data, const Array<PrimExpr>& channels, F f) {
  Array<PrimExpr> selected = LogicalShape(attrs->ParsedDataLayout(), data, "NCHW", "data");
  selected.Set(1, channels[0]);
  auto plain = MakeObject<Conv2DAttrs>(*attrs);
  plain->data_layout = "NCHW";
  return f(plain.get(), selected);
}

Type SelectingConvInfer(const InferContext& context) {
  const auto *data = context.Tensor(0, "data"), *weight = context.Tensor(1, "weight");
  const auto* channels = context.Tensor(2, "channels");
  const auto* attrs = context.attrs<Conv2DAttrs>();
  CheckRank(channels, 1, "channels");
  CheckIntegral(channels, "channels");
  CheckSameDType(data, weight);
  const ConvSizes sizes = WithSelected(attrs, data->shape, channels->shape, [&](const Conv2DAttrs* plain, auto& shape) {
    return ResolveConv(plain, 2, shape, data->dtype, &weight->shape);
  });
  context.Expect(1, TensorType(PhysicalShape(attrs->ParsedKernelLayout(), sizes.weight, "OIHW"), data->dtype));
  return TensorType(PhysicalShape(attrs->ParsedOutLayout(), sizes.out, "NCHW"), sizes.out_dtype);
}

void CheckSelected(const relay::CallNode* call) {
  const Array<PrimExpr>& data = ShapeOf(call->args[0]->checked_type_);
  const Array<PrimExpr> plain = LogicalShape(call->attrs_as<Conv2DAttrs>()->ParsedDataLayout(), data, "NCHW", "data");
  const int64_t channels = DimValue(plain[1]);
  relay::CheckConstantOperand(call, 2, "channels", [channels](int64_t) { return channels; });
}

double SelectingConvMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  const Array<PrimExpr>& weight = ShapeOf(arguments[1]);  // O I H W i o
  return Elements(ShapeOf(result)) * Elements(weight) /
         static_cast<double>(DimValue(weight[0]) * DimValue(weight[weight.size() - 1]));
}

std::string LowerCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// What each output element of a convolution sums over: channel and tap indices of data and weight.
struct ConvBody {
  const ConvAttrs* attrs;
  const ConvSizes& sizes;
  size_t rank;
  Layout data_layout, weight_layout;
  Tensor data, weight;  ///< data is padded
  DataType dtype;       ///< of the sum

  /// `out` is N C spatial, `ic` the channel within the group.
  PrimExpr Product(const Array<PrimExpr>& out, const PrimExpr& ic, const Array<PrimExpr>& taps) const {
    PrimExpr channel = ic;
    Array<PrimExpr> weight_index{out[1], ic};
    if (attrs->groups > 1) {
      PrimExpr per_group = DimFloorDiv(sizes.channels, Dim(attrs->groups));
      PrimExpr group = DimValue(per_group) == 1 ? out[1] : tir::floordiv(out[1], per_group);
      PrimExpr width = DimFloorDiv(sizes.data[1], Dim(attrs->groups));
      channel = DimValue(width) == 1 ? group : group * width + ic;
      if (sizes.multiplier_form) weight_index = {group, tir::floormod(out[1], per_group)};
    }
    Array<PrimExpr> data_index{out[0], channel};
    for (size_t i = 0; i < rank; ++i) {
      data_index.push_back(out[2 + i] * attrs->strides[i] + taps[i] * attrs->dilation[i]);
      weight_index.push_back(taps[i]);
    }
    std::string spatial = SpatialNames(rank);
    PrimExpr x = data(PhysicalIndex(data_layout, data_index, "NC" + spatial));
    PrimExpr w = weight(PhysicalIndex(weight_layout, weight_index, "OI" + spatial));
    return tir::cast(dtype, x) * tir::cast(dtype, w);
  }
};

te::Problem RowConvProblem(const ConvAttrs* attrs, const ConvSizes& sizes, const Tensor& padded, const Tensor& weight,
                           DataType out_dtype) {
  return te::Make<te::Problem, RowConvProblemNode>([&](auto& p) {
    const Array<PrimExpr> data = LogicalShape(attrs->ParsedDataLayout(), padded->shape, "NCHW", "data");
    p.batch = DimValue(data[0]);
    p.ic = DimValue(data[1]);
    p.ih = DimValue(data[2]);
    p.iw = DimValue(data[3]);
    p.oc = DimValue(sizes.out[1]);
    p.oh = DimValue(sizes.out[2]);
    p.ow = DimValue(sizes.out[3]);
    p.kh = sizes.kernel[0];
    p.kw = sizes.kernel[1];
    p.stride_h = attrs->strides[0];
    p.stride_w = attrs->strides[1];
    p.dilation_h = attrs->dilation[0];
    p.dilation_w = attrs->dilation[1];
    p.groups = attrs->groups;
    p.dtype = padded->dtype;
    p.weight_dtype = weight->dtype;
    p.out_dtype = out_dtype;
  });
}

template <size_t kRank>
Array<Tensor> ConvCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<ConvAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  ConvSizes sizes = ResolveConv(a, kRank, inputs[0]->shape, inputs[0]->dtype, &inputs[1]->shape);
  std::string spatial = SpatialNames(kRank);
  const Layout data_layout = a->ParsedDataLayout(), out_layout = a->ParsedOutLayout();
  std::vector<int64_t> before(data_layout.ndim(), 0), after(data_layout.ndim(), 0);
  for (size_t i = 0; i < kRank; ++i) {
    auto at = static_cast<size_t>(data_layout.IndexOf(spatial[i]));
    before[at] = sizes.padding[i];
    after[at] = sizes.padding[kRank + i];
  }
  Tensor data = Pad(inputs[0], before, after, tir::make_zero(inputs[0]->dtype));
  ConvBody body{a, sizes, kRank, data_layout, a->ParsedKernelLayout(), data, inputs[1], AccumulatorDType(out->dtype)};

  bool depthwise = a->groups > 1 && DimValue(sizes.data[1]) == a->groups;
  Array<te::IterVar> taps = ReduceAxes(sizes.kernel, "k");
  Array<te::IterVar> axes;
  PrimExpr ic = Index(0);
  if (!depthwise) {
    axes.push_back(te::ReduceAxis(tir::Range(DimFloorDiv(sizes.data[1], Dim(a->groups))), "ic"));
    ic = axes[0]->var;
  }
  for (const te::IterVar& tap : taps) axes.push_back(tap);
  std::string kind = depthwise ? "depthwise_conv" : a->groups > 1 ? "group_conv" : "conv";
  std::string name = StrCat(kind, kRank, "d_", LowerCase(out_layout.str()));
  Map<String, ObjectRef> stage;
  if (kRank == 2 && out_layout.str() == "NCHW") {
    stage = te::AnchorAttrs(kRowConv, te::kAnchor, RowConvProblem(a, sizes, data, inputs[1], out->dtype));
  }
  Tensor sum = te::ComputeStage(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        return te::Sum(body.Product(LogicalIndex(out_layout, i, "NC" + spatial), ic, AxisVars(taps)), axes);
      },
      name, stage);
  return {CastTo(sum, out->dtype, name + "_cast")};
}

template <size_t kRank>
double ConvMacs(const Attrs& attrs, const Array<Type>& arguments, const Type& result) {
  const auto* a = attrs.as<ConvAttrs>();
  const Array<PrimExpr>& weight = ShapeOf(arguments[1]);
  ConvSizes sizes = ResolveConv(a, kRank, ShapeOf(arguments[0]), arguments[0].as<TensorTypeNode>()->dtype, &weight);
  double per_output = static_cast<double>(DimValue(sizes.data[1]) / a->groups);
  for (int64_t taps : sizes.kernel) per_output *= static_cast<double>(taps);
  return Elements(ShapeOf(result)) * per_output;
}

template <typename AttrsT, size_t kRank>
OpRegistration RegisterConv(const char* name) {
  return OpRegistration(name)
      .Describe("Convolution (cross-correlation): the sum over a window and the channels of a group.")
      .Arguments(
          {{"data", "Tensor", "The input, in data_layout."}, {"weight", "Tensor", "The kernel, in kernel_layout."}})
      .AttrsType<AttrsT>()
      .SupportLevel(2)
      .Relation(Rule<ConvInfer<kRank>, 1>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(ConvMacs<kRank>))
      .Set(kCompute, FTECompute(ConvCompute<kRank>));
}

}  // namespace

void RegisterConvOps() {
  RegisterConv<Conv1DAttrs, 1>("nn.conv1d").Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kAlways);
  RegisterConv<Conv2DAttrs, 2>("nn.conv2d")
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kAlways)
      .Set(kGradient, FGradient(gradient::OfConv2D));
  RegisterConv<Conv3DAttrs, 3>("nn.conv3d").Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kAlways);
  // Their computation is that of the kernels of CPUs.
  RegisterConv<Conv2DAttrs, 2>("nn.contrib_conv2d_NCHWc");
  RegisterConv<Conv2DAttrs, 2>("nn.contrib_depthwise_conv2d_NCHWc");
  RegisterConv<Conv2DAttrs, 2>("nn.contrib_depthwise_conv2d_NHWC");
  OpRegistration("nn.contrib_conv2d_select_NCHWc")
      .Describe("Convolution whose input channel i is channel channels[i] of the data.")
      .Arguments({{"data", "Tensor", "The input, in data_layout."},
                  {"weight", "Tensor", "The kernel, in kernel_layout."},
                  {"channels", "Tensor", "One index for each input channel."}})
      .AttrsType<Conv2DAttrs>()
      .SupportLevel(2)
      .Relation(Rule<SelectingConvInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(SelectingConvMacs))
      .Set(relay::kCheckConstants, relay::FCheckConstants(CheckSelected));
}

}  // namespace treadle::ops
