// SPDX-License-Identifier: Apache-2.0
// Coordinates and weights of resampling, as ONNX Resize-19 defines them. Coordinates are computed in float32.
#include "ops/resize_compute.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/infer.h"
#include "treadle/te/stage.h"

namespace treadle::ops {
namespace {

const DataType kCoord = DataType::Float(32);

PrimExpr F(double value) { return tir::make_const(kCoord, value); }

/// One element that an output element depends on.
struct Tap {
  PrimExpr index;   ///< within the dimension
  PrimExpr weight;  ///< null: 1
};

constexpr int64_t kExact = int64_t{1} << 24;  // integers up to here are exact in float32

/// One resampled dimension.
class Resampler {
 public:
  Resampler(const ResizeAttrs& attrs, size_t d, size_t rank, const PrimExpr& in, const PrimExpr& out)
      : attrs_(attrs), in_(in), out_(out) {
    if (d < attrs.roi.size() && attrs.roi.size() == 2 * rank) {
      begin_ = attrs.roi[d];
      end_ = attrs.roi[rank + d];
    }
    bool constant = DimValue(in) > 0 && DimValue(out) > 0;
    if (d < attrs.scales.size()) {
      value_ = static_cast<float>(attrs.scales[d]);
    } else if (constant) {
      value_ = static_cast<float>(DimValue(out)) / static_cast<float>(DimValue(in));
    }
    scale_ = value_ > 0 ? F(value_) : tir::div(tir::cast(kCoord, out), tir::cast(kCoord, in));
  }

  /// The constant factor, or 0.
  double factor() const { return value_; }
  bool shrinks() const { return value_ > 0 && value_ < 1; }

  /// Position in the input of output element `i`.
  PrimExpr Coordinate(const PrimExpr& i) const {
    const std::string& mode = attrs_.coordinate_transformation_mode;
    // Vectors convert from 32 bits.
    const bool narrow = DimValue(out_) >= 0 && DimValue(out_) <= kExact;
    PrimExpr x = tir::cast(kCoord, narrow ? tir::cast(DataType::Int(32), i) : i);
    PrimExpr in = tir::cast(kCoord, in_);
    // ONNX means the size before rounding where factors are given.
    PrimExpr out = attrs_.scales.empty() ? tir::cast(kCoord, out_) : scale_ * in;
    PrimExpr half_pixel = tir::div(x + F(0.5), scale_) - F(0.5);
    if (mode == "half_pixel") return half_pixel;
    if (mode == "asymmetric") return tir::div(x, scale_);
    if (mode == "tf_half_pixel_for_nn") return tir::div(x + F(0.5), scale_);
    if (mode == "half_pixel_symmetric") {
      // (x + 0.5) / scale - 0.5, moved so that the middles coincide: distances from them are rounded least.
      const PrimExpr from_middle = x - (tir::cast(kCoord, out_) - F(1)) * F(0.5);
      return tir::div(from_middle, scale_) + (in - F(1)) * F(0.5);
    }
    PrimExpr single = tir::less_equal(out_, Index(1));
    if (mode == "pytorch_half_pixel") return tir::select(single, F(0), half_pixel);
    PrimExpr last = tir::select(tir::greater(out - F(1), F(0)), out - F(1), F(1));
    if (mode == "align_corners") return tir::select(single, F(0), tir::div(x * (in - F(1)), last));
    PrimExpr width = in - F(1);
    PrimExpr moving = F(begin_) * width + tir::div(x * F(end_ - begin_) * width, last);
    return tir::select(single, F(0.5 * (begin_ + end_)) * width, moving);
  }

  /// Whether the position lies in the input.
  PrimExpr Inside(const PrimExpr& i) const {
    PrimExpr x = Coordinate(i);
    return x >= F(0) && x <= tir::cast(kCoord, in_) - F(1);
  }

  /// Whether the nearest elements are each element a whole number of times, which needs integers only.
  bool RepeatsWhole() const {
    const std::string &mode = attrs_.coordinate_transformation_mode, rounding = Rounding();
    const auto whole = static_cast<int64_t>(value_);
    const bool by_whole = value_ >= 1 && static_cast<double>(whole) == value_ &&
                          DimValue(DimMul(in_, Dim(whole))) == DimValue(out_) && DimValue(out_) >= 0;
    const bool rounds = rounding.rfind("round", 0) == 0;
    return by_whole && ((mode == "asymmetric" && rounding == "floor") || (mode == "half_pixel" && rounds));
  }

  PrimExpr Nearest(const PrimExpr& i) const {
    const std::string rounding = Rounding();
    if (RepeatsWhole()) {
      const auto whole = static_cast<int64_t>(value_);
      return whole == 1 ? i : tir::indexdiv(i, Index(whole));
    }
    PrimExpr x = Coordinate(i);
    PrimExpr nearest;
    if (rounding == "floor") {
      nearest = tir::floor(x);
    } else if (rounding == "ceil") {
      nearest = tir::ceil(x);
    } else if (rounding == "round_prefer_floor") {
      nearest = tir::ceil(x - F(0.5));
    } else {
      nearest = tir::floor(x + F(0.5));
    }
    return ClampIndex(nearest);
  }

  /// For each output element, the input element at or before its position. It is computed once: places and weights
  /// that belong to different ones, for a position rounds either way, would be wrong.
  Tensor Bases(const std::string& name) const {
    return Compute(
        {out_}, [&](const Array<PrimExpr>& i) { return tir::floor(Coordinate(i[0])); }, name, "resize_table");
  }

  std::vector<Tap> Taps(const PrimExpr& i, const PrimExpr& base) const {
    PrimExpr t = Coordinate(i) - base;
    std::vector<Tap> taps;
    auto add = [&](int offset, const PrimExpr& weight) {
      PrimExpr position = base + F(offset);
      PrimExpr used = weight;
      if (attrs_.method == "cubic" && attrs_.cubic_exclude) {
        PrimExpr inside = position >= F(0) && position <= tir::cast(kCoord, in_) - F(1);
        used = tir::select(inside, weight, F(0));
      }
      taps.push_back({ClampIndex(position), used});
    };
    if (attrs_.method == "linear") {
      add(0, F(1) - t);
      add(1, t);
    } else {
      for (int offset = -1; offset <= 2; ++offset) add(offset, CubicWeight(tir::abs(F(offset) - t)));
    }
    if (attrs_.method != "linear" && attrs_.cubic_exclude) {
      PrimExpr total = taps[0].weight + taps[1].weight + taps[2].weight + taps[3].weight;
      for (Tap& tap : taps) tap.weight = tir::div(tap.weight, total);
    }
    // At an element itself all taps are that element: neighbours count nothing, not even infinite ones.
    const PrimExpr exact = tir::equal(t, F(0)), here = ClampIndex(base);
    for (Tap& tap : taps) {
      tap.index = tir::select(exact, here, tap.index);
      tap.weight = tir::select(exact, F(1.0 / static_cast<double>(taps.size())), tap.weight);
    }
    return taps;
  }

  // Of antialiasing: the kernel is stretched by 1 / factor.
  int64_t support() const {
    double reach = attrs_.method == "cubic" ? 2.0 : 1.0;
    return 2 - 2 * FirstOffset(reach);
  }
  /// Weight (not normalised) and index of tap k in [0, support()).
  Tap StretchedTap(const PrimExpr& i, const PrimExpr& k, const PrimExpr& base) const {
    double reach = attrs_.method == "cubic" ? 2.0 : 1.0;
    double shrink = std::min(value_, 1.0);
    PrimExpr offset = tir::cast(kCoord, k) + F(static_cast<double>(FirstOffset(reach)));
    PrimExpr distance = tir::abs(offset - (Coordinate(i) - base)) * F(shrink);
    PrimExpr weight = attrs_.method == "cubic" ? CubicWeight(distance) : tir::max(F(1) - distance, F(0));
    PrimExpr position = base + offset;
    if (attrs_.cubic_exclude) {
      weight = tir::select(position >= F(0) && position <= tir::cast(kCoord, in_) - F(1), weight, F(0));
    }
    return {ClampIndex(position), weight};
  }

 private:
  std::string Rounding() const {
    if (!attrs_.rounding_method.empty()) return attrs_.rounding_method;
    return attrs_.coordinate_transformation_mode == "asymmetric" ? "floor" : "round_prefer_floor";
  }
  int64_t FirstOffset(double reach) const {
    return static_cast<int64_t>(std::floor(-reach / std::min(value_, 1.0))) + 1;
  }
  PrimExpr ClampIndex(const PrimExpr& position) const {
    const int64_t* in = AsConstInt(in_);
    if (in == nullptr || *in > kExact) return Clamp(tir::cast(DataType::Int(64), position), Index(0), in_ - 1);
    // Vectors convert to 32 bits; what is far outside is brought near first.
    const DataType narrow = DataType::Int(32);
    PrimExpr near = tir::max(tir::min(position, F(static_cast<double>(*in))), F(-1));
    return tir::cast(DataType::Int(64),
                     Clamp(tir::cast(narrow, near), tir::make_const(narrow, 0), tir::make_const(narrow, *in - 1)));
  }
  /// Keys' kernel at a non-negative distance.
  PrimExpr CubicWeight(const PrimExpr& d) const {
    double a = attrs_.cubic_alpha;
    PrimExpr near = ((F(a + 2) * d - F(a + 3)) * d) * d + F(1);
    PrimExpr far = ((F(a) * d - F(5 * a)) * d + F(8 * a)) * d - F(4 * a);
    return tir::select(d <= F(1), near, tir::select(d < F(2), far, F(0)));
  }

  const ResizeAttrs& attrs_;
  PrimExpr in_, out_, scale_;
  double value_ = 0;
  double begin_ = 0;
  double end_ = 1;
};

/// Along one dimension at a time, since the stretched kernel may have many taps.
Tensor Antialiased(const std::vector<Resampler>& dims, Tensor data, const std::vector<size_t>& axes,
                   const Array<PrimExpr>& out_shape) {
  for (size_t d = 0; d < dims.size(); ++d) {
    const Resampler& dim = dims[d];
    const std::string suffix = std::to_string(d);
    const Tensor bases = dim.Bases("resize_base" + suffix);
    const SampleWindows windows = MakeSampleWindows(
        data->shape[axes[d]], out_shape[axes[d]], Index(dim.support()),
        [&](const PrimExpr& i, const PrimExpr& k) { return dim.StretchedTap(i, k, bases(i)).index; },
        [&](const PrimExpr& i, const PrimExpr& k) { return dim.StretchedTap(i, k, bases(i)).weight; }, suffix);
    data = SumSampleWindows(windows, data, axes[d], suffix);
  }
  return data;
}

/// The value of an element of the result, before it becomes one of its dtype.
using Value = std::function<PrimExpr(const Array<PrimExpr>&)>;

PrimExpr Weighted(const std::vector<Tap>& taps, const Tensor& from, Array<PrimExpr> at, size_t axis) {
  PrimExpr total;
  for (const Tap& tap : taps) {
    at.Set(axis, tap.index);
    PrimExpr term = tir::cast(kCoord, from(at)) * tap.weight;
    total = total.defined() ? total + term : term;
  }
  return total;
}

/// Where the elements along a dimension are taken from and with which weights, computed once for all that share it.
class TapTables {
 public:
  TapTables(const Resampler& dim, const PrimExpr& in, const PrimExpr& out, bool linear, size_t d) {
    const Tensor bases = dim.Bases(StrCat("resize_base", d));
    const Array<PrimExpr> shape{out};
    const int64_t* size = AsConstInt(in);
    const DataType place = DataType::Int(size != nullptr && *size <= INT32_MAX ? 32 : 64);
    for (size_t k = 0; k < (linear ? 2 : 4); ++k) {
      auto tap = [&, k](const Array<PrimExpr>& i) { return dim.Taps(i[0], bases(i[0]))[k]; };
      const std::string suffix = d == 0 ? std::to_string(k) : StrCat(d, "_", k);
      places_.push_back(Compute(
          shape, [&](const Array<PrimExpr>& i) { return tir::cast(place, tap(i).index); }, "resize_place" + suffix,
          "resize_table"));
      weights_.push_back(Compute(
          shape, [&](const Array<PrimExpr>& i) { return tap(i).weight; }, "resize_weight" + suffix, "resize_table"));
    }
  }

  std::vector<Tap> At(const PrimExpr& i) const {
    std::vector<Tap> taps;
    for (size_t k = 0; k < places_.size(); ++k) {
      taps.push_back({tir::cast(DataType::Int(64), places_[k](i)), weights_[k](i)});
    }
    return taps;
  }

 private:
  std::vector<Tensor> places_, weights_;
};

/// The sum over all combinations of taps along the first of the axes, as many as there are `taps`; the first axis is
/// outermost.
PrimExpr SumOfTaps(const std::vector<std::vector<Tap>>& taps, const Tensor& data, const std::vector<size_t>& axes,
                   const Array<PrimExpr>& i) {
  std::function<PrimExpr(size_t, const Array<PrimExpr>&)> sum = [&](size_t d, const Array<PrimExpr>& at) {
    if (d == taps.size()) return tir::cast(kCoord, data(at));
    PrimExpr total;
    for (const Tap& tap : taps[d]) {
      Array<PrimExpr> next = at;
      next.Set(axes[d], tap.index);
      PrimExpr term = sum(d + 1, next) * tap.weight;
      total = total.defined() ? total + term : term;
    }
    return total;
  };
  return sum(0, i);
}

/// A stage of all elements that are resampled along all axes but the last.
Tensor ResampledRows(const std::vector<Resampler>& dims, const Tensor& data, const std::vector<size_t>& axes,
                     const Array<PrimExpr>& out_shape) {
  const size_t last = axes.size() - 1;
  Array<PrimExpr> shape = out_shape;
  shape.Set(axes[last], data->shape[axes[last]]);
  std::vector<Tensor> bases;
  for (size_t d = 0; d < last; ++d) bases.push_back(dims[d].Bases(StrCat("resize_base", d)));
  auto element = [&](const Array<PrimExpr>& i) {
    std::vector<std::vector<Tap>> taps;
    for (size_t d = 0; d < last; ++d) taps.push_back(dims[d].Taps(i[axes[d]], bases[d](i[axes[d]])));
    return SumOfTaps(taps, data, axes, i);
  };
  return te::ComputeStage(
      shape, element, "resize_rows",
      Map<String, ObjectRef>{{String(te::kRowAxis), IntImm(DataType::Int(64), static_cast<int64_t>(axes[last - 1]))}});
}

/// Of neighbouring axes, all but the last first, row by row: there elements stay where they are, so that few are
/// gathered for the columns. Where each column reads and with which weight is the same for all rows.
Value ByRows(const std::vector<Resampler>& dims, const Tensor& data, const std::vector<size_t>& axes,
             const Array<PrimExpr>& out_shape, bool linear) {
  const size_t last = axes.size() - 1, axis = axes[last];
  const TapTables columns(dims[last], data->shape[axis], out_shape[axis], linear, last);
  const Tensor rows = last == 0 ? data : ResampledRows(dims, data, axes, out_shape);
  return [rows, columns, axis](const Array<PrimExpr>& i) { return Weighted(columns.At(i[axis]), rows, i, axis); };
}

/// Each element by itself.
Value ByTaps(const std::vector<Resampler>& dims, const Tensor& data, const std::vector<size_t>& axes,
             const Array<PrimExpr>& out_shape, bool linear) {
  std::vector<TapTables> tables;
  for (size_t d = 0; d < dims.size(); ++d) {
    tables.emplace_back(dims[d], data->shape[axes[d]], out_shape[axes[d]], linear, d);
  }
  return [tables, data, axes](const Array<PrimExpr>& i) {
    std::vector<std::vector<Tap>> taps;
    for (size_t d = 0; d < tables.size(); ++d) taps.push_back(tables[d].At(i[axes[d]]));
    return SumOfTaps(taps, data, axes, i);
  };
}

/// The nearest elements, columns first: those of a row are gathered once for all rows that repeat it, from places that
/// are the same for all rows.
Value NearestByColumns(const std::vector<Resampler>& dims, const Tensor& data, const std::vector<size_t>& axes,
                       const Array<PrimExpr>& out_shape) {
  const size_t last = axes.back();
  const int64_t* width = AsConstInt(data->shape[last]);
  const DataType place = DataType::Int(width != nullptr && *width <= INT32_MAX ? 32 : 64);
  const Tensor places = Compute(
      {out_shape[last]}, [&](const Array<PrimExpr>& i) { return tir::cast(place, dims.back().Nearest(i[0])); },
      "resize_place", "resize_table");
  Array<PrimExpr> shape = data->shape;
  shape.Set(last, out_shape[last]);
  const Tensor columns = te::ComputeStage(
      shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        at.Set(last, tir::cast(DataType::Int(64), places(i[last])));
        return data(at);
      },
      "resize_columns",
      Map<String, ObjectRef>{{String(te::kRowAxis), IntImm(DataType::Int(64), static_cast<int64_t>(axes[0]) - 1)}});
  return [&dims, columns, axes](const Array<PrimExpr>& i) {
    Array<PrimExpr> at = i;
    for (size_t d = 0; d + 1 < axes.size(); ++d) at.Set(axes[d], dims[d].Nearest(i[axes[d]]));
    return columns(at);
  };
}

/// How elements are made; `out` has some.
Value ValueOf(const ResizeAttrs& attrs, const std::vector<Resampler>& dims, const Tensor& data,
              const std::vector<size_t>& axes, const TensorTypeNode* out) {
  if (attrs.method == "nearest_neighbor") {
    const bool grows = !std::any_of(dims.begin(), dims.end(), [](const Resampler& dim) { return dim.shrinks(); });
    if (axes[0] > 0 && axes.back() + 1 == data.ndim() && grows && !dims.back().RepeatsWhole()) {
      return NearestByColumns(dims, data, axes, out->shape);
    }
    return [&dims, data, axes](const Array<PrimExpr>& i) {
      Array<PrimExpr> at = i;
      for (size_t d = 0; d < axes.size(); ++d) at.Set(axes[d], dims[d].Nearest(i[axes[d]]));
      return data(at);
    };
  }
  const bool shrinks = std::any_of(dims.begin(), dims.end(), [](const Resampler& dim) { return dim.shrinks(); });
  if (attrs.antialias && shrinks) {
    Tensor sampled = Antialiased(dims, data, axes, out->shape);
    return [sampled](const Array<PrimExpr>& i) { return sampled(i); };
  }
  const bool linear = attrs.method == "linear";
  const bool neighbours = axes.back() - axes.front() + 1 == axes.size();
  const bool shrinks_columns = dims.size() > 1 && dims.back().shrinks();  // known to: of few columns, rows need all
  if (neighbours && !shrinks_columns && !IsEmptyDim(out->shape[axes.back()])) {
    return ByRows(dims, data, axes, out->shape, linear);
  }
  return ByTaps(dims, data, axes, out->shape, linear);
}

/// Integers cut off digits: what is one but for the rounding of weights and products has to be that one first.
PrimExpr Stored(const PrimExpr& value, DataType dtype) {
  if (!dtype.is_integral() || !value.dtype().is_floating()) return tir::cast(dtype, value);
  const tir::Var x("value", value.dtype());
  const PrimExpr nearest = tir::nearbyint(x);
  const PrimExpr is_integer = tir::abs(x - nearest) <= tir::make_const(x.dtype(), 1.0 / 8192);
  return tir::Let(x, value, tir::cast(dtype, tir::select(is_integer, nearest, x)));
}

}  // namespace

SampleWindows MakeSampleWindows(const PrimExpr& in, const PrimExpr& out, const PrimExpr& taps,
                                const std::function<PrimExpr(const PrimExpr& i, const PrimExpr& k)>& place,
                                const std::function<PrimExpr(const PrimExpr& i, const PrimExpr& k)>& weight,
                                const std::string& suffix) {
  const Array<PrimExpr> shape{taps, out};
  const int64_t* size = AsConstInt(in);
  const DataType narrow = DataType::Int(size != nullptr && *size <= INT32_MAX ? 32 : 64);
  const Tensor raw = Compute(
      shape, [&](const Array<PrimExpr>& i) { return weight(i[1], i[0]); }, "resize_raw" + suffix, "resize_table");
  const te::IterVar k = te::ReduceAxis(tir::Range(taps), "k");
  const Tensor total = Compute(
      {out}, [&](const Array<PrimExpr>& i) { return te::Sum(raw(k->var, i[0]), {k}); }, "resize_total" + suffix,
      tag::kCommReduce);
  SampleWindows windows;
  windows.places = Compute(
      shape, [&](const Array<PrimExpr>& i) { return tir::cast(narrow, place(i[1], i[0])); }, "resize_place" + suffix,
      "resize_table");
  windows.weights = Compute(
      shape, [&](const Array<PrimExpr>& i) { return tir::div(raw(i), total(i[1])); }, "resize_weights" + suffix,
      "resize_table");
  return windows;
}

Tensor SumSampleWindows(const SampleWindows& windows, const Tensor& data, size_t axis, const std::string& suffix) {
  const DataType dtype = data->dtype == DataType::Float(64) ? data->dtype : kCoord;
  Array<PrimExpr> shape = data->shape;
  shape.Set(axis, windows.weights->shape[1]);
  const te::IterVar k = te::ReduceAxis(tir::Range(windows.weights->shape[0]), "k");
  return Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        at.Set(axis, tir::cast(DataType::Int(64), windows.places(k->var, i[axis])));
        const PrimExpr weight = windows.weights(k->var, i[axis]);
        return te::Sum(tir::select(tir::equal(weight, F(0)), tir::make_zero(dtype),
                                   tir::cast(dtype, data(at)) * tir::cast(dtype, weight)),
                       {k});
      },
      "resize_sum" + suffix, tag::kCommReduce);
}

Tensor ResizeTensor(const ResizeAttrs& attrs, const Tensor& data, const std::vector<size_t>& axes,
                    const TensorTypeNode* out) {
  std::vector<Resampler> dims;
  bool empty = false;
  for (size_t d = 0; d < axes.size(); ++d) {
    dims.emplace_back(attrs, d, axes.size(), data->shape[axes[d]], out->shape[axes[d]]);
    empty = empty || IsEmptyDim(data->shape[axes[d]]);
  }
  Value value;
  if (!empty) value = ValueOf(attrs, dims, data, axes, out);
  const bool crops = attrs.coordinate_transformation_mode == "tf_crop_and_resize";
  auto element = [&](const Array<PrimExpr>& i) {
    if (empty) return tir::make_zero(out->dtype);
    PrimExpr result = Stored(value(i), out->dtype);
    if (!crops) return result;
    PrimExpr inside;
    for (size_t d = 0; d < axes.size(); ++d) {
      PrimExpr here = dims[d].Inside(i[axes[d]]);
      inside = inside.defined() ? inside && here : here;
    }
    return tir::select(inside, result, SaturatedConst(out->dtype, attrs.extrapolation_value));
  };
  return Compute(out->shape, element, "resize", tag::kInjective);
}

}  // namespace treadle::ops
