// SPDX-License-Identifier: Apache-2.0
// Convolutions of 1, 2 and 3 spatial dimensions. Semantics: ONNX Conv-1 to Conv-22 (cross-correlation).
#include "ops/conv.h"

#include "ops/families.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

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
  sizes.data = LogicalShape(Layout(attrs->data_layout), data, "NC" + spatial, "data");
  if (weight != nullptr) sizes.weight = LogicalShape(Layout(attrs->kernel_layout), *weight, "OI" + spatial, "weight");
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

namespace {

template <size_t kRank>
Type ConvInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ConvAttrs>();
  bool known = IsKnown(context.type(1));
  const auto* weight = known ? context.Tensor(1, "weight") : nullptr;
  ConvSizes sizes = ResolveConv(attrs, kRank, data->shape, data->dtype, known ? &weight->shape : nullptr);
  if (!sizes.resolved) return Type();
  DataType weight_dtype = data->dtype;
  if (known && weight->dtype != data->dtype) {
    if (!weight->dtype.is_integral() || !data->dtype.is_integral()) CheckSameDType(data, weight);
    weight_dtype = weight->dtype;
  }
  std::string spatial = SpatialNames(kRank);
  Layout kernel_layout(attrs->kernel_layout);
  context.Expect(1, TensorType(PhysicalShape(kernel_layout, sizes.weight, "OI" + spatial), weight_dtype));
  Layout out_layout(attrs->out_layout.empty() ? attrs->data_layout : attrs->out_layout);
  return TensorType(PhysicalShape(out_layout, sizes.out, "NC" + spatial), sizes.out_dtype);
}

template <typename AttrsT, size_t kRank>
void RegisterConv(const char* name) {
  OpRegistration(name)
      .Describe("Convolution (cross-correlation): the sum over a window and the channels of a group.")
      .Arguments(
          {{"data", "Tensor", "The input, in data_layout."}, {"weight", "Tensor", "The kernel, in kernel_layout."}})
      .AttrsType<AttrsT>()
      .SupportLevel(2)
      .Relation(Rule<ConvInfer<kRank>, 1>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable);
}

}  // namespace

void RegisterConvOps() {
  RegisterConv<Conv1DAttrs, 1>("nn.conv1d");
  RegisterConv<Conv2DAttrs, 2>("nn.conv2d");
  RegisterConv<Conv3DAttrs, 3>("nn.conv3d");
  RegisterConv<Conv2DAttrs, 2>("nn.contrib_conv2d_NCHWc");
  RegisterConv<Conv2DAttrs, 2>("nn.contrib_depthwise_conv2d_NCHWc");
}

}  // namespace treadle::ops
