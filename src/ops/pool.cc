// SPDX-License-Identifier: Apache-2.0
// Pooling. Semantics: ONNX MaxPool-22, AveragePool-22, GlobalMaxPool-1, GlobalAveragePool-1.
#include "treadle/ops/attrs/pool.h"
#include "ops/conv.h"
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

Layout OutLayout(const std::string& layout, const std::string& out_layout) {
  return Layout(out_layout.empty() ? layout : out_layout);
}

/// Sizes N C spatial of the result of window pooling.
Array<PrimExpr> PoolShape(const PoolAttrs* attrs, size_t rank, const Array<PrimExpr>& data) {
  CheckSpatial(attrs->pool_size, rank, 1, "pool_size");
  CheckSpatial(attrs->strides, rank, 1, "strides");
  CheckSpatial(attrs->dilation, rank, 1, "dilation");
  std::vector<int64_t> padding = NormalizePadding(attrs->padding, rank);
  Array<PrimExpr> out = {data[0], data[1]};
  for (size_t i = 0; i < rank; ++i) {
    int64_t span = CheckedAdd<int64_t>(CheckedMul(attrs->pool_size[i] - 1, attrs->dilation[i], "dilated window"), 1);
    int64_t pad = CheckedAdd(padding[i], padding[rank + i], "padding");
    int64_t stride = attrs->strides[i];
    PrimExpr size = data[2 + i];
    if (!attrs->ceil_mode) {
      out.push_back(WindowDim(size, pad, span, stride));
      continue;
    }
    // Rounding up may add a window; one that starts past the input and its leading padding is dropped.
    PrimExpr rounded = WindowDim(size, CheckedAdd(pad, stride - 1, "padding"), span, stride);
    PrimExpr starting = DimFloorDiv(DimAdd(size, Dim(padding[i] + stride - 1)), Dim(stride));
    if (IsAnyDim(size)) {
      out.push_back(rounded);
    } else {
      out.push_back(tir::min(rounded, starting));
    }
  }
  return out;
}

template <size_t kRank>
Type PoolInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<PoolAttrs>();
  std::string names = "NC" + SpatialNames(kRank);
  Array<PrimExpr> sizes = LogicalShape(Layout(attrs->layout), data->shape, names, "data");
  Array<PrimExpr> out = PoolShape(attrs, kRank, sizes);
  return TensorType(PhysicalShape(OutLayout(attrs->layout, attrs->out_layout), out, names), data->dtype);
}

template <size_t kRank>
Type GlobalPoolInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<GlobalPoolAttrs>();
  std::string names = "NC" + SpatialNames(kRank);
  Array<PrimExpr> out = LogicalShape(Layout(attrs->layout), data->shape, names, "data");
  for (size_t i = 0; i < kRank; ++i) out.Set(2 + i, Dim(1));
  return TensorType(PhysicalShape(OutLayout(attrs->layout, attrs->out_layout), out, names), data->dtype);
}

template <size_t kRank>
Type AdaptivePoolInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<AdaptivePoolAttrs>();
  std::string names = "NC" + SpatialNames(kRank);
  Array<PrimExpr> out = LogicalShape(Layout(attrs->layout), data->shape, names, "data");
  if (!attrs->output_size.empty()) {
    std::vector<int64_t> size = attrs->output_size;
    if (size.size() == 1) size.resize(kRank, size[0]);
    CheckSpatial(size, kRank, 1, "output_size");
    for (size_t i = 0; i < kRank; ++i) out.Set(2 + i, Dim(size[i]));
  }
  return TensorType(PhysicalShape(OutLayout(attrs->layout, attrs->out_layout), out, names), data->dtype);
}

template <typename AttrsT>
OpRegistration Pool(const std::string& name, const char* text, TypeRelationFn relation) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input, in layout."}})
      .AttrsType<AttrsT>()
      .SupportLevel(2)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable);
}

}  // namespace

void RegisterPoolOps() {
  const char* max = "Greatest element of a window; padding never wins. NaN wins.";
  Pool<MaxPool1DAttrs>("nn.max_pool1d", max, Rule<PoolInfer<1>>);
  Pool<MaxPool2DAttrs>("nn.max_pool2d", max, Rule<PoolInfer<2>>);
  Pool<MaxPool3DAttrs>("nn.max_pool3d", max, Rule<PoolInfer<3>>);
  const char* avg = "Mean of a window.";
  Pool<AvgPool1DAttrs>("nn.avg_pool1d", avg, Rule<PoolInfer<1>>);
  Pool<AvgPool2DAttrs>("nn.avg_pool2d", avg, Rule<PoolInfer<2>>);
  Pool<AvgPool3DAttrs>("nn.avg_pool3d", avg, Rule<PoolInfer<3>>);
  const char* global = "Pooling over all of the spatial dimensions.";
  for (const char* kind : {"max", "avg"}) {
    std::string prefix = StrCat("nn.global_", kind, "_pool");
    Pool<GlobalPool1DAttrs>(prefix + "1d", global, Rule<GlobalPoolInfer<1>>);
    Pool<GlobalPool2DAttrs>(prefix + "2d", global, Rule<GlobalPoolInfer<2>>);
    Pool<GlobalPool3DAttrs>(prefix + "3d", global, Rule<GlobalPoolInfer<3>>);
    prefix = StrCat("nn.adaptive_", kind, "_pool");
    const char* adaptive = "Pooling to a given size: windows follow from input and output size.";
    Pool<AdaptivePool1DAttrs>(prefix + "1d", adaptive, Rule<AdaptivePoolInfer<1>>);
    Pool<AdaptivePool2DAttrs>(prefix + "2d", adaptive, Rule<AdaptivePoolInfer<2>>);
    Pool<AdaptivePool3DAttrs>(prefix + "3d", adaptive, Rule<AdaptivePoolInfer<3>>);
  }
}

}  // namespace treadle::ops
