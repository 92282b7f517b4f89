// SPDX-License-Identifier: Apache-2.0
// Operators along dynamic axes, or with dynamic factors. Semantics: NumPy transpose; ONNX Resize-19.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "ops/dynamic.h"
#include "ops/infer.h"
#include "ops/resize_compute.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/dynamic.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/shape_function.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ResizeAxisAttrs);

namespace {

using Shapes = Array<Array<PrimExpr>>;

/// (data, axes)
Type TransposeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* axes = context.Tensor(1, "axes");
  CheckRank(axes, 1, "axes");
  CheckIntegral(axes, "axes");
  if (DimValue(axes->shape[0]) != static_cast<int64_t>(data->shape.size())) {
    throw ShapeError(StrCat("axes must have one entry for each dimension of ", TypeText(data)));
  }
  return TensorType(data->shape.Map([](const PrimExpr&) { return AnyDim(); }), data->dtype);
}

/// One of the values, by number.
PrimExpr Pick(const PrimExpr& number, const Array<PrimExpr>& values) {
  if (const int64_t* known = AsConstInt(number)) {
    return values[static_cast<size_t>(std::clamp<int64_t>(*known, 0, static_cast<int64_t>(values.size()) - 1))];
  }
  PrimExpr result = values[values.size() - 1];
  for (size_t i = values.size() - 1; i-- > 0;) {
    result = tir::select(tir::equal(number, Index(static_cast<int64_t>(i))), values[i], result);
  }
  return result;
}

Shapes TransposeShapes(const Attrs&, const Array<TensorType>& operands, const ElementOf& element) {
  Array<PrimExpr> out;
  for (size_t i = 0; i < operands[0]->shape.size(); ++i) {
    out.push_back(Pick(element(1, static_cast<int64_t>(i)), operands[0]->shape));
  }
  return {out};
}

Array<Tensor> TransposeCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at;
        for (size_t d = 0; d < x.ndim(); ++d) {
          PrimExpr position = Index(0);
          for (size_t k = i.size(); k-- > 0;) {
            PrimExpr from = tir::cast(DataType::Int(64), inputs[1](Array<PrimExpr>{Index(static_cast<int64_t>(k))}));
            position = tir::select(tir::equal(from, Index(static_cast<int64_t>(d))), i[k], position);
          }
          // What is no permutation stays inside.
          at.push_back(Clamp(position, Index(0), x->shape[d] - 1));
        }
        return x(at);
      },
      "transpose", tag::kInjective)};
}

/// (data, size, scale, roi)
Type ResizeAxisInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ResizeAxisAttrs>();
  CheckRank(context.Tensor(1, "size"), 0, "size");
  CheckRank(context.Tensor(2, "scale"), 0, "scale");
  CheckRank(context.Tensor(3, "roi"), 1, "roi");
  Array<PrimExpr> out = data->shape;
  out.Set(static_cast<size_t>(NormalizeAxis(attrs->axis, out.size())), AnyDim());
  if (attrs->method != "nearest" && data->dtype != DataType::Float(32) && data->dtype != DataType::Float(64)) {
    throw DTypeError(StrCat("data must be float32 or float64, not ", data->dtype));
  }
  return TensorType(out, data->dtype);
}

Shapes ResizeAxisShapes(const Attrs& attrs, const Array<TensorType>& operands, const ElementOf& element) {
  Array<PrimExpr> out = operands[0]->shape;
  out.Set(static_cast<size_t>(NormalizeAxis(attrs.as<ResizeAxisAttrs>()->axis, out.size())),
          tir::max(element(1, 0), Index(0)));
  return {out};
}

/// Where elements of one dimension of the result lie in the operand.
class AxisSampler {
 public:
  AxisSampler(const ResizeAxisAttrs* attrs, const Array<Tensor>& inputs, const PrimExpr& out)
      : a_(attrs), inputs_(inputs), in_(inputs[0]->shape[Axis()]), out_(out) {}

  size_t Axis() const { return static_cast<size_t>(NormalizeAxis(a_->axis, inputs_[0].ndim())); }
  const PrimExpr& in() const { return in_; }

  PrimExpr F(double value) const { return tir::make_const(kCoord, value); }
  PrimExpr Scale() const { return inputs_[2](Array<PrimExpr>{}); }
  PrimExpr Coordinate(const PrimExpr& i) const {
    const std::string& mode = a_->transform;
    PrimExpr x = tir::cast(kCoord, i), in = tir::cast(kCoord, in_), scale = Scale();
    PrimExpr half_pixel = tir::div(x + F(0.5), scale) - F(0.5);
    if (mode == "half_pixel") return half_pixel;
    if (mode == "asymmetric") return tir::div(x, scale);
    if (mode == "tf_half_pixel_for_nn") return tir::div(x + F(0.5), scale);
    if (mode == "half_pixel_symmetric") {  // as of sizes that are known (resize_compute.cc)
      const PrimExpr from_middle = x - (tir::cast(kCoord, out_) - F(1)) * F(0.5);
      return tir::div(from_middle, scale) + (in - F(1)) * F(0.5);
    }
    PrimExpr single = tir::less_equal(out_, Index(1));
    if (mode == "pytorch_half_pixel") return tir::select(single, F(0), half_pixel);
    PrimExpr out = scale * in;
    PrimExpr last = tir::select(tir::greater(out - F(1), F(0)), out - F(1), F(1));
    if (mode == "align_corners") return tir::select(single, F(0), tir::div(x * (in - F(1)), last));
    if (mode != "tf_crop_and_resize") {
      throw UnsupportedOpError(StrCat("resampling with coordinates ", mode, " isn't implemented"), {});
    }
    PrimExpr begin = inputs_[3](Array<PrimExpr>{Index(0)}), end = inputs_[3](Array<PrimExpr>{Index(1)});
    PrimExpr width = in - F(1);
    return tir::select(single, F(0.5) * (begin + end) * width,
                       begin * width + tir::div(x * (end - begin) * width, last));
  }
  PrimExpr Inside(const PrimExpr& position) const {
    return position >= F(0) && position <= tir::cast(kCoord, in_) - F(1);
  }
  PrimExpr ClampIndex(const PrimExpr& position) const {
    PrimExpr near = tir::max(tir::min(position, tir::cast(kCoord, in_)), F(-1));
    return Clamp(tir::cast(DataType::Int(64), near), Index(0), in_ - 1);
  }
  PrimExpr Nearest(const PrimExpr& i) const {
    PrimExpr x = Coordinate(i);
    if (a_->rounding == "floor") return ClampIndex(tir::floor(x));
    if (a_->rounding == "ceil") return ClampIndex(tir::ceil(x));
    return ClampIndex(a_->rounding == "round_prefer_ceil" ? tir::floor(x + F(0.5)) : tir::ceil(x - F(0.5)));
  }
  /// Of an element at a distance from the position (in elements of the smaller side where antialiased).
  PrimExpr Weight(const PrimExpr& distance) const {
    if (a_->method == "linear") return tir::max(F(1) - distance, F(0));
    const double a = a_->cubic_alpha;
    PrimExpr near = ((F(a + 2) * distance - F(a + 3)) * distance) * distance + F(1);
    PrimExpr far = ((F(a) * distance - F(5 * a)) * distance + F(8 * a)) * distance - F(4 * a);
    return tir::select(distance <= F(1), near, tir::select(distance < F(2), far, F(0)));
  }

  static constexpr DataType kCoord = DataType::Float(32);

 private:
  const ResizeAxisAttrs* a_;
  const Array<Tensor>& inputs_;
  PrimExpr in_, out_;
};

Array<PrimExpr> At(const Array<PrimExpr>& i, size_t axis, const PrimExpr& position) {
  Array<PrimExpr> at = i;
  at.Set(axis, position);
  return at;
}

/// An element that counts nothing may be infinite.
PrimExpr Weighted(const PrimExpr& value, const PrimExpr& weight) {
  const DataType dtype = value.dtype();
  return tir::select(tir::equal(weight, tir::make_zero(weight.dtype())), tir::make_zero(dtype),
                     value * tir::cast(dtype, weight));
}

/// With a kernel as wide as the factor asks for: the elements in reach of each position.
Tensor Antialiased(const ResizeAxisAttrs* a, const AxisSampler& sampler, const Tensor& x, const TensorTypeNode* out) {
  const size_t axis = sampler.Axis();
  const PrimExpr& in = sampler.in();
  const PrimExpr size = out->shape[axis], scale = tir::min(sampler.Scale(), sampler.F(1));
  const int64_t radius = a->method == "linear" ? 1 : 2;
  // Sizes are rounded to the nearest at most: the factor is at least (size - 1/2) / in, or 1. Both ends of a window may
  // be rounded to the next element.
  const PrimExpr least = tir::max(size * 2 - 1, Index(1));
  const PrimExpr taps = tir::floordiv(tir::max(in * 2, least) * (2 * radius) + least - 1, least) + 1;
  Tensor first = Compute(
      {size},
      [&](const Array<PrimExpr>& i) {
        const PrimExpr from = tir::ceil(sampler.Coordinate(i[0]) - tir::div(sampler.F(radius), scale));
        const PrimExpr reach = tir::cast(AxisSampler::kCoord, in * 4 + 2);
        return tir::cast(DataType::Int(64), tir::max(tir::min(from, reach), reach * sampler.F(-1)));
      },
      "resize_first", "resize_table");
  const auto position = [&](const PrimExpr& i, const PrimExpr& k) { return first(i) + k; };
  const auto weight = [&](const PrimExpr& i, const PrimExpr& k) {
    const PrimExpr at = tir::cast(AxisSampler::kCoord, position(i, k));
    PrimExpr weight = sampler.Weight(tir::abs(at - sampler.Coordinate(i)) * scale);
    return a->exclude_outside ? tir::select(sampler.Inside(at), weight, sampler.F(0)) : weight;
  };
  const auto place = [&](const PrimExpr& i, const PrimExpr& k) { return Clamp(position(i, k), Index(0), in - 1); };
  return SumSampleWindows(MakeSampleWindows(in, size, taps, place, weight, ""), x, axis, "");
}

/// Where the elements around each position lie in the axis and what they count; both are the same for all rows.
struct AxisTaps {
  std::vector<Tensor> places, weights;
};

Tensor AxisTable(const PrimExpr& size, const std::string& name, const std::function<PrimExpr(const PrimExpr&)>& value) {
  return Compute({size}, [&](const Array<PrimExpr>& i) { return value(i[0]); }, name, "resize_table");
}

AxisTaps MakeAxisTaps(const ResizeAxisAttrs* a, const AxisSampler& sampler, const PrimExpr& size) {
  AxisTaps taps;
  if (a->method == "nearest") {
    taps.places.push_back(AxisTable(size, "resize_place", [&](const PrimExpr& i) { return sampler.Nearest(i); }));
    return taps;
  }
  // Once: places and weights that belong to different ones, for a position rounds either way, would be wrong.
  const Tensor base =
      AxisTable(size, "resize_base", [&](const PrimExpr& i) { return tir::floor(sampler.Coordinate(i)); });
  const bool cubic = a->method == "cubic";
  for (int offset = cubic ? -1 : 0; offset <= (cubic ? 2 : 1); ++offset) {
    const std::string suffix = std::to_string(taps.places.size());
    const auto from = [&](const PrimExpr& i) { return base(i) + sampler.F(offset); };
    taps.places.push_back(
        AxisTable(size, "resize_place" + suffix, [&](const PrimExpr& i) { return sampler.ClampIndex(from(i)); }));
    taps.weights.push_back(AxisTable(size, "resize_weight" + suffix, [&](const PrimExpr& i) {
      const PrimExpr weight = sampler.Weight(tir::abs(from(i) - sampler.Coordinate(i)));
      return cubic && a->exclude_outside ? tir::select(sampler.Inside(from(i)), weight, sampler.F(0)) : weight;
    }));
  }
  return taps;
}

/// The nearest element, or the sum of the 2 or 4 elements around the position.
PrimExpr Interpolated(const ResizeAxisAttrs* a, const AxisTaps& taps, const Tensor& x, const Array<PrimExpr>& i,
                      size_t axis) {
  const auto element = [&](size_t k) { return x(At(i, axis, taps.places[k](i[axis]))); };
  if (taps.weights.empty()) return element(0);
  PrimExpr sum, total;
  for (size_t k = 0; k < taps.places.size(); ++k) {
    const PrimExpr weight = taps.weights[k](i[axis]), term = Weighted(element(k), weight);
    sum = sum.defined() ? sum + term : term;
    total = total.defined() ? total + weight : weight;
  }
  return a->method == "cubic" && a->exclude_outside ? tir::div(sum, tir::cast(x->dtype, total)) : sum;
}

Array<Tensor> ResizeAxisCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<ResizeAxisAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(a->axis, x.ndim()));
  AxisSampler sampler(a, inputs, out->shape[axis]);
  Tensor smooth;
  AxisTaps taps;
  if (a->antialias && a->method != "nearest") {
    smooth = Antialiased(a, sampler, x, out);
  } else {
    taps = MakeAxisTaps(a, sampler, out->shape[axis]);
  }
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr value = smooth.defined() ? smooth(i) : Interpolated(a, taps, x, i, axis);
        if (a->transform != "tf_crop_and_resize") return value;
        return tir::select(sampler.Inside(sampler.Coordinate(i[axis])), value,
                           SaturatedConst(out->dtype, a->extrapolation_value));
      },
      "resize_axis", tag::kInjective)};
}

}  // namespace

void RegisterDynamicAxisOps() {
  const OpArgument data = {"data", "Tensor", "The input."};
  OpRegistration("dyn.transpose")
      .Describe("As transpose, with the order of dimensions given by an operand.")
      .Arguments({data, {"axes", "Tensor", "A dimension of data for each of the result."}})
      .Relation(Rule<TransposeInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kDataDependentShape, true)
      .Set(kShapeFunction, FShapeFunction(TransposeShapes))
      .Set(kCompute, FTECompute(TransposeCompute));
  OpRegistration("dyn.resize_axis")
      .Describe("One dimension resampled to a size, by a factor; both are operands.")
      .Arguments({data,
                  {"size", "Tensor", "Scalar: elements of the result."},
                  {"scale", "Tensor", "Scalar, float32: result to input."},
                  {"roi", "Tensor", "Begin and end of the part of the input, 0 to 1."}})
      .AttrsType<ResizeAxisAttrs>()
      .Relation(Rule<ResizeAxisInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kDataDependentShape, true)
      .Set(kShapeFunction, FShapeFunction(ResizeAxisShapes))
      .Set(kCompute, FTECompute(ResizeAxisCompute));
}

}  // namespace treadle::ops
