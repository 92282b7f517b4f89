// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions. Semantics: ONNX ConvTranspose-1 to ConvTranspose-22.
#include <algorithm>

#include "ops/conv.h"
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

struct TransposeSizes {
  Array<PrimExpr> data, weight, out;  ///< N C spatial; I O spatial
  std::vector<int64_t> kernel, padding, output_padding;
  bool resolved = false;
};

/// The layout whose first letter is the input channel; "OIHW" means the same here.
std::string KernelLayout(const ConvTransposeAttrs* attrs) {
  std::string layout = attrs->kernel_layout;
  if (layout.rfind("OI", 0) == 0) std::swap(layout[0], layout[1]);
  return layout;
}

TransposeSizes Resolve(const ConvTransposeAttrs* attrs, size_t rank, const Array<PrimExpr>& data,
                       const Array<PrimExpr>* weight) {
  TransposeSizes sizes;
  std::string spatial = SpatialNames(rank);
  CheckSpatial(attrs->strides, rank, 1, "strides");
  CheckSpatial(attrs->dilation, rank, 1, "dilation");
  sizes.output_padding = attrs->output_padding;
  if (sizes.output_padding.size() == 1) sizes.output_padding.resize(rank, sizes.output_padding[0]);
  CheckSpatial(sizes.output_padding, rank, 0, "output_padding");
  if (attrs->groups < 1) throw ShapeError(StrCat("groups must be at least 1, is ", attrs->groups));
  sizes.padding = NormalizePadding(attrs->padding, rank, true);
  sizes.data = LogicalShape(Layout(attrs->data_layout), data, "NC" + spatial, "data");
  if (weight != nullptr) sizes.weight = LogicalShape(Layout(KernelLayout(attrs)), *weight, "IO" + spatial, "weight");
  if (weight == nullptr && !(attrs->channels.has_value() && attrs->kernel_size.has_value())) return sizes;

  PrimExpr in_channels = sizes.data[1];
  int64_t groups = attrs->groups;
  if (DimValue(in_channels) >= 0 && DimValue(in_channels) % groups != 0) {
    throw ShapeError(StrCat("groups ", groups, " doesn't divide the input's ", DimValue(in_channels), " channels"));
  }
  PrimExpr channels = attrs->channels.has_value() ? Dim(*attrs->channels) : DimMul(sizes.weight[1], Dim(groups));
  if (AsConstInt(channels) != nullptr && (DimValue(channels) < 0 || DimValue(channels) % groups != 0)) {
    throw ShapeError(StrCat("groups ", groups, " doesn't divide the ", DimValue(channels), " output channels"));
  }
  for (size_t i = 0; i < rank; ++i) {
    if (attrs->kernel_size.has_value()) CheckSpatial(*attrs->kernel_size, rank, 1, "kernel_size");
    int64_t k = attrs->kernel_size.has_value() ? (*attrs->kernel_size)[i] : DimValue(sizes.weight[2 + i]);
    if (k < 1) throw ShapeError("the weight's window must be of constant, positive size");
    sizes.kernel.push_back(k);
  }
  sizes.weight = {in_channels, DimFloorDiv(channels, Dim(groups))};
  sizes.out = {sizes.data[0], channels};
  for (size_t i = 0; i < rank; ++i) {
    sizes.weight.push_back(Dim(sizes.kernel[i]));
    if (sizes.output_padding[i] >= std::max(attrs->strides[i], attrs->dilation[i])) {
      throw ShapeError(StrCat("output_padding ", sizes.output_padding[i], " must be less than the stride or dilation"));
    }
    int64_t span = CheckedAdd<int64_t>(CheckedMul(sizes.kernel[i] - 1, attrs->dilation[i], "dilated kernel"), 1);
    int64_t pad = CheckedAdd(sizes.padding[i], sizes.padding[rank + i], "padding");
    // (in - 1) * stride + span + output_padding - pad
    int64_t offset = span + sizes.output_padding[i] - pad - attrs->strides[i];
    PrimExpr out = DimAdd(DimMul(sizes.data[2 + i], Dim(attrs->strides[i])), Dim(offset));
    if (AsConstInt(out) != nullptr && DimValue(out) < 0) {
      throw ShapeError(StrCat("padding ", pad, " removes more than all of spatial dimension ", i));
    }
    sizes.out.push_back(out);
  }
  sizes.resolved = true;
  return sizes;
}

template <size_t kRank>
Type ConvTransposeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ConvTransposeAttrs>();
  bool known = IsKnown(context.type(1));
  const auto* weight = known ? context.Tensor(1, "weight") : nullptr;
  TransposeSizes sizes = Resolve(attrs, kRank, data->shape, known ? &weight->shape : nullptr);
  if (!sizes.resolved) return Type();
  if (known) CheckSameDType(data, weight);
  std::string spatial = SpatialNames(kRank);
  context.Expect(1, TensorType(PhysicalShape(Layout(KernelLayout(attrs)), sizes.weight, "IO" + spatial), data->dtype));
  Layout out_layout(attrs->out_layout.empty() ? attrs->data_layout : attrs->out_layout);
  return TensorType(PhysicalShape(out_layout, sizes.out, "NC" + spatial), ConvOutDType(data->dtype, attrs->out_dtype));
}

template <typename AttrsT, size_t kRank>
void RegisterConvTranspose(const char* name) {
  OpRegistration(name)
      .Describe("Transposed convolution: the gradient of a convolution with respect to its input.")
      .Arguments(
          {{"data", "Tensor", "The input, in data_layout."}, {"weight", "Tensor", "The kernel, in kernel_layout."}})
      .AttrsType<AttrsT>()
      .SupportLevel(2)
      .Relation(Rule<ConvTransposeInfer<kRank>, 1>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable);
}

}  // namespace

void RegisterConvTransposeOps() {
  RegisterConvTranspose<Conv1DTransposeAttrs, 1>("nn.conv1d_transpose");
  RegisterConvTranspose<Conv2DTransposeAttrs, 2>("nn.conv2d_transpose");
  RegisterConvTranspose<Conv3DTransposeAttrs, 3>("nn.conv3d_transpose");
}

}  // namespace treadle::ops
