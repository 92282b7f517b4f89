// SPDX-License-Identifier: Apache-2.0
// Resizing of images. Semantics: ONNX Resize-19 and Upsample-9.
#include <cmath>

#include "ops/conv.h"
#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "ops/layout_rules.h"
#include "ops/resize_compute.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/image.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ResizeAttrs);
TREADLE_DEFINE_NODE(Resize1DAttrs);
TREADLE_DEFINE_NODE(Resize2DAttrs);
TREADLE_DEFINE_NODE(Resize3DAttrs);
TREADLE_DEFINE_NODE(UpSamplingAttrs);
TREADLE_DEFINE_NODE(UpSampling3DAttrs);

namespace {

void CheckOneOf(const std::string& value, const std::vector<const char*>& allowed, const char* name) {
  std::string list;
  for (const char* text : allowed) {
    if (value == text) return;
    list += StrCat(list.empty() ? "" : ", ", text);
  }
  throw ShapeError(StrCat(name, " must be one of ", list, "; not \"", value, "\""));
}

template <size_t kRank>
Type ResizeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ResizeAttrs>();
  CheckOneOf(attrs->method, {"nearest_neighbor", "linear", "cubic"}, "method");
  CheckOneOf(attrs->coordinate_transformation_mode,
             {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
              "tf_half_pixel_for_nn", "tf_crop_and_resize"},
             "coordinate_transformation_mode");
  CheckOneOf(attrs->rounding_method, {"", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"},
             "rounding_method");
  if (attrs->size.size() != kRank) {
    throw ShapeError(StrCat("size must have ", kRank, " entries, not ", attrs->size.size()));
  }
  for (const PrimExpr& size : attrs->size) {
    if (DimValue(size) < 0)
      throw ShapeError(StrCat("size must be integers of at least 0, is ", ShapeText(attrs->size)));
  }
  if (!attrs->scales.empty() && attrs->scales.size() != kRank) {
    throw ShapeError(StrCat("scales must have ", kRank, " entries, not ", attrs->scales.size()));
  }
  if (attrs->coordinate_transformation_mode == "tf_crop_and_resize" && attrs->roi.size() != 2 * kRank) {
    throw ShapeError(StrCat("tf_crop_and_resize needs a roi of ", 2 * kRank, " entries, not ", attrs->roi.size()));
  }
  Layout layout(attrs->layout);
  std::string names = "NC" + SpatialNames(kRank);
  Array<PrimExpr> sizes = LogicalShape(layout, data->shape, names, "data");
  for (size_t i = 0; i < kRank; ++i) {
    const bool empty = AsConstInt(sizes[2 + i]) != nullptr && DimValue(sizes[2 + i]) == 0;
    if (DimValue(attrs->size[i]) > 0) {
      if (empty) {
        throw ShapeError(StrCat("an image of ", TypeText(data), " can't be resampled to ", ShapeText(attrs->size)));
      }
      RequireAtLeast(context, sizes[2 + i], Dim(1));
    }
    sizes.Set(2 + i, attrs->size[i]);
  }
  return TensorType(PhysicalShape(layout, sizes, names), ConvOutDType(data->dtype, attrs->out_dtype));
}

PrimExpr ScaleDim(const PrimExpr& dim, double scale) {
  if (!(scale > 0) || scale > 1e6) throw ShapeError(StrCat("scale must be positive, is ", scale));
  if (const int64_t* n = AsConstInt(dim))
    return Dim(static_cast<int64_t>(std::llround(static_cast<double>(*n) * scale)));
  if (IsAnyDim(dim)) return AnyDim();
  if (scale == std::floor(scale)) return DimMul(dim, Dim(static_cast<int64_t>(scale)));
  throw ShapeError(StrCat("a symbolic dimension can't be scaled by ", scale));
}

Type UpSamplingInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<UpSamplingAttrs>();
  CheckOneOf(attrs->method, {"nearest_neighbor", "bilinear", "bicubic"}, "method");
  Layout layout(attrs->layout);
  Array<PrimExpr> sizes = LogicalShape(layout, data->shape, "NCHW", "data");
  sizes.Set(2, ScaleDim(sizes[2], attrs->scale_h));
  sizes.Set(3, ScaleDim(sizes[3], attrs->scale_w));
  return TensorType(PhysicalShape(layout, sizes, "NCHW"), data->dtype);
}

Type UpSampling3DInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<UpSampling3DAttrs>();
  CheckOneOf(attrs->method, {"nearest_neighbor", "trilinear"}, "method");
  Layout layout(attrs->layout);
  Array<PrimExpr> sizes = LogicalShape(layout, data->shape, "NCDHW", "data");
  sizes.Set(2, ScaleDim(sizes[2], attrs->scale_d));
  sizes.Set(3, ScaleDim(sizes[3], attrs->scale_h));
  sizes.Set(4, ScaleDim(sizes[4], attrs->scale_w));
  return TensorType(PhysicalShape(layout, sizes, "NCDHW"), data->dtype);
}

std::vector<size_t> SpatialAxes(const Layout& layout, size_t rank) {
  std::vector<size_t> axes;
  for (char name : SpatialNames(rank)) {
    if (layout.BlockOf(name) != 1) throw ShapeError(StrCat("resizing in layout ", layout, " isn't implemented"));
    axes.push_back(static_cast<size_t>(layout.IndexOf(name)));
  }
  return axes;
}

template <size_t kRank>
Array<Tensor> ResizeCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<ResizeAttrs>();
  return {ResizeTensor(*a, inputs[0], SpatialAxes(Layout(a->layout), kRank), OutTensor(out_type))};
}

Array<Tensor> UpSamplingCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<UpSamplingAttrs>();
  ResizeAttrs resize(a->layout);
  bool nearest = a->method == "nearest_neighbor";
  resize.method = nearest ? a->method : a->method == "bilinear" ? "linear" : "cubic";
  resize.coordinate_transformation_mode = nearest ? "asymmetric" : a->align_corners ? "align_corners" : "half_pixel";
  resize.scales = {a->scale_h, a->scale_w};
  return {ResizeTensor(resize, inputs[0], SpatialAxes(Layout(a->layout), 2), OutTensor(out_type))};
}

Array<Tensor> UpSampling3DCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<UpSampling3DAttrs>();
  ResizeAttrs resize(a->layout);
  bool nearest = a->method == "nearest_neighbor";
  resize.method = nearest ? a->method : "linear";
  resize.coordinate_transformation_mode = nearest ? "asymmetric" : a->coordinate_transformation_mode;
  resize.scales = {a->scale_d, a->scale_h, a->scale_w};
  return {ResizeTensor(resize, inputs[0], SpatialAxes(Layout(a->layout), 3), OutTensor(out_type))};
}

OpRegistration Image(const char* name, const char* text, TypeRelationFn relation, FTECompute compute) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input, in layout."}})
      .SupportLevel(2)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kInjective)
      .Set(kCompute, std::move(compute));
}

}  // namespace

void RegisterResizeOps() {
  const char* resize = "Resampling to a given size.";
  Image("image.resize1d", resize, Rule<ResizeInfer<1>>, ResizeCompute<1>).AttrsType<Resize1DAttrs>();
  Image("image.resize2d", resize, Rule<ResizeInfer<2>>, ResizeCompute<2>)
      .AttrsType<Resize2DAttrs>()
      .Set(relay::kLayoutRule, relay::FLayoutRule(ResizeLayoutRule));
  Image("image.resize3d", resize, Rule<ResizeInfer<3>>, ResizeCompute<3>).AttrsType<Resize3DAttrs>();
  Image("nn.upsampling", "Resampling by a factor.", Rule<UpSamplingInfer>, UpSamplingCompute)
      .AttrsType<UpSamplingAttrs>()
      .Set(relay::kLayoutRule, relay::FLayoutRule(ResizeLayoutRule))
      .Set(kGradient, FGradient(gradient::OfUpSampling));
  Image("nn.upsampling3d", "Resampling by a factor.", Rule<UpSampling3DInfer>, UpSampling3DCompute)
      .AttrsType<UpSampling3DAttrs>();
}

}  // namespace treadle::ops
