// SPDX-License-Identifier: Apache-2.0
// Nodes with axes, sizes, factors and the like that are only known when the model runs.
#include <algorithm>
#include <cmath>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/dynamic_rules.h"
#include "frontend/onnx/forks.h"
#include "frontend/onnx/run_time_axes.h"
#include "frontend/onnx/values.h"

namespace treadle::onnx {

using relay::Expr;

namespace {

using Axes = std::vector<int64_t>;
const DataType kInt64 = DataType::Int(64);
const DataType kFloat32 = DataType::Float(32);
const DataType kFloat64 = DataType::Float(64);
constexpr double kPi = 3.14159265358979323846;

}  // namespace

/// The axes' number tells the result's rank.
Expr ImportRunTimeSqueeze(NodeImport& n) {
  const int64_t declared = n.DeclaredRank();
  Term x = In(n, 0), axes = ListIn(n, 1, "axes", declared < 0 ? -1 : n.Rank(0) - declared);
  const int rank = x.rank();
  const int64_t left = rank - Length(axes);
  if (left < 0) n.Invalid("'axes' has more entries than there are dimensions");
  AxisOrder order = AxesLast(axes, rank, true);
  return ReshapeTo(x, ShapeOf(x).Take(order.order.Slice(0, 0, left)));
}

Expr ImportRunTimeUnsqueeze(NodeImport& n) {
  const int64_t declared = n.DeclaredRank();
  Term x = In(n, 0), axes = ListIn(n, 1, "axes", declared < 0 ? -1 : declared - n.Rank(0));
  const int rank = x.rank() + static_cast<int>(Length(axes));
  AxisOrder order = AxesLast(axes, rank, true);
  // The operand's sizes, then ones; in the order of the result.
  Term ones = IntVec(n, Axes(static_cast<size_t>(Length(axes)), 1));
  Term sizes = x.rank() == 0 ? ones : Concat({ShapeOf(x), ones}, 0);
  return ReshapeTo(x, sizes.Take(order.position));
}

RunTimeReduction::RunTimeReduction(NodeImport& n, bool keepdims, bool noop) : keepdims_(keepdims) {
  Term x = In(n, 0), axes = In(n, 1).As(kInt64);
  rank_ = x.rank();
  if (axes.rank() > 1) n.Invalid("'axes' isn't a vector");
  if (axes.rank() == 0) axes = axes.Reshape({1});
  if (!keepdims && AsConstInt(axes.shape()[0]) == nullptr && n.DeclaredRank() > 0 && n.DeclaredRank() < rank_) {
    axes = axes.Reshape({rank_ - n.DeclaredRank()});
  }
  const int64_t* length = AsConstInt(axes.shape()[0]);
  if (length == nullptr && !keepdims) throw UnknownLength{1, "axes"};
  AxisOrder order = AxesLast(axes, rank_, /*distinct=*/true);
  if (length == nullptr && !noop) {  // no axes at all: all of them
    Term none = DimOf(axes, 0) == 0;
    Term dims = Iota(IntNum(n, rank_));
    order.mask = order.mask || none;
    order.order = none.Select(dims, order.order);
  }
  kept_ = length == nullptr ? 0 : rank_ - static_cast<int>(*length);
  if (kept_ < 0) n.Invalid("'axes' has more entries than there are dimensions");
  order_ = order.order;
  mask_ = order.mask;
}

Term RunTimeReduction::Flatten(const Term& x) const {
  Term shape = ShapeOf(x), one = IntVec(x.node(), Axes(static_cast<size_t>(rank_), 1));
  Term rows = mask_->Select(one, shape).Op("prod", {{"axis", Axes{0}}, {"keepdims", false}});
  Term columns = mask_->Select(shape, one).Op("prod", {{"axis", Axes{0}}, {"keepdims", false}});
  return ReshapeTo(TransposeBy(x, *order_), {rows, columns});
}

Term RunTimeReduction::Restore(const Term& y, const Term& x) const {
  Term shape = ShapeOf(x);
  if (keepdims_) return ReshapeTo(y, mask_->Select(IntVec(x.node(), Axes(static_cast<size_t>(rank_), 1)), shape));
  if (kept_ == 0) return y.Reshape({});
  return ReshapeTo(y, shape.Take(order_->Slice(0, 0, kept_)));
}

Expr ImportRunTimeCumulative(NodeImport& n, const char* op) {
  const bool exclusive = n.Flag("exclusive", false), reverse = n.Flag("reverse", false);
  return AlongAxis(In(n, 0), ScalarIn(n, 1, kInt64), [&](const Term& x) {
    return x.Op(
        op, {{"axis", int64_t{x.rank() - 1}}, {"dtype", x.dtype()}, {"exclusive", exclusive}, {"reverse", reverse}});
  });
}

Expr ImportRunTimeTrilu(NodeImport& n) {
  const bool upper = n.Flag("upper", true);
  Term x = In(n, 0), k = n.Has(1) ? ScalarIn(n, 1, kInt64) : IntNum(n, 0);
  Term rows = Iota(DimOf(x, x.rank() - 2)).Expand(1), columns = Iota(DimOf(x, x.rank() - 1)).Expand(0);
  Term distance = columns - rows;
  return (upper ? distance >= k : distance <= k).Select(x, 0);
}

Expr ImportRunTimeWindow(NodeImport& n, double a0, double a1, double a2) {
  const bool periodic = n.Flag("periodic", true);
  const DataType dtype = n.TypeAttr("output_datatype", ElemType::kFloat);
  Term size = AtLeast(ScalarIn(n, 0, kInt64), 0, "size");
  Term period = (periodic ? size : size - 1).As(kFloat64);
  Term t = Iota(size).As(kFloat64) * (2 * kPi) / period;
  return (a0 - a1 * t.Op("cos") + a2 * (2.0 * t).Op("cos")).As(dtype);
}

namespace {

/// (rank, 2): what stands before and behind each dimension, of the axes that the lists belong to.
Term PadWidths(NodeImport& n, const Term& before, const Term& after, const Axes& axes, int rank) {
  std::vector<Term> widths;
  for (int d = 0; d < rank; ++d) {
    auto at = std::find(axes.begin(), axes.end(), d);
    for (const Term& side : {before, after}) {
      widths.push_back(at == axes.end() ? IntNum(n, 0) : side.Element(at - axes.begin()));
    }
  }
  return Stack(widths).Reshape({rank, 2});
}

}  // namespace

Expr ImportRunTimeCenterCropPad(NodeImport& n) {
  const auto listed = n.HasAttr("axes") ? static_cast<int64_t>(n.Ints("axes").size()) : n.Rank(0);
  Term x = In(n, 0), target = AtLeast(ListIn(n, 1, "shape", listed), 0, "size");
  const int rank = x.rank();
  Axes axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  if (n.HasAttr("axes")) axes = n.Axes(n.Ints("axes"), rank);
  if (Length(target) != static_cast<int64_t>(axes.size())) {
    n.Invalid(StrCat(Length(target), " sizes for ", axes.size(), " axes"));
  }
  Term sizes = ShapeOf(x).Take(IntVec(n, axes));
  Term begin = FloorDiv(Max(sizes - target, 0), 2), end = begin + Min(sizes, target);
  Term missing = Max(target - sizes, 0), before = FloorDiv(missing, 2);
  const Axes zeros(axes.size(), 0);
  Term ones = IntVec(n, Axes(axes.size(), 1));
  Expr cut = n.Call(
      "dyn.strided_slice", {x, begin, end, ones},
      {{"begin", zeros}, {"end", zeros}, {"strides", zeros}, {"axes", axes}, {"slice_mode", std::string("end")}});
  return n.Call("dyn.nn.pad", {cut, PadWidths(n, before, missing - before, axes, rank), n.Scalar(n.DType(0), 0)},
                {{"pad_mode", std::string("constant")}});
}

namespace {

/// The sizes and factors of a Resize or Upsample, one for each axis.
struct ResizePlan {
  Axes axes;
  Term sizes;   ///< int64
  Term scales;  ///< float32
};

/// `ratio` (float64, per axis) made one for all axes, as keep_aspect_ratio_policy says.
ResizePlan FromSizes(NodeImport& n, const Axes& axes, const Term& dims, const Term& sizes) {
  const std::string policy = n.Str("keep_aspect_ratio_policy", "stretch");
  Term ratio = sizes.As(kFloat64) / dims;
  if (policy == "stretch") return {axes, sizes, ratio.As(kFloat32)};
  if (policy != "not_larger" && policy != "not_smaller") {
    n.Invalid(StrCat("'keep_aspect_ratio_policy' is ", QuoteName(policy)));
  }
  Term one = ratio.Reduce(policy == "not_larger" ? "min" : "max", {0}, true);
  Term scales = ratio * 0.0 + one;
  Term rounded = (scales * dims + 0.5).Op("floor").As(kInt64);
  return {axes, rounded, scales.As(kFloat32)};
}

/// What is known of a size, or null.
PrimExpr KnownSize(const Term& size) {
  const auto elements = size.node().ShapeElements(size);
  return elements ? (*elements)[0] : PrimExpr();
}

}  // namespace

Expr ImportResizeByAxis(NodeImport& n) {
  const bool upsample = n.node().op_type == "Upsample", old = upsample || n.version() == 10;
  Term x = In(n, 0);
  const int rank = x.rank();
  Axes axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  if (n.HasAttr("axes")) axes = n.Axes(n.Ints("axes"), rank);
  std::string mode = n.Str("mode", "nearest");
  if (mode == "bilinear") mode = "linear";
  if (mode != "nearest" && mode != "linear" && mode != "cubic") n.Invalid(StrCat("'mode' is ", QuoteName(mode)));
  const std::string transform = old ? "asymmetric" : n.Str("coordinate_transformation_mode", "half_pixel");
  auto present = [&](size_t i) {
    if (!n.Has(i)) return false;
    const int64_t* length = n.Rank(i) == 1 ? AsConstInt(TypeOf(n.In(i))->shape[0]) : nullptr;
    return length == nullptr || *length != 0;
  };
  Term dims = ShapeOf(x).Take(IntVec(n, axes)).As(kFloat64);
  const bool by_sizes = !old && present(3);
  if (!old) {
    n.IgnoreInput(1);
    n.IgnoreInput(2);
    n.IgnoreInput(3);
  }
  n.Ignore({"keep_aspect_ratio_policy", "cubic_coeff_a", "exclude_outside", "extrapolation_value", "antialias"});
  auto check = [&](const Term& list) {
    const auto count = static_cast<int64_t>(axes.size());
    const int64_t* length = list.rank() == 1 ? AsConstInt(list.shape()[0]) : nullptr;
    if (list.rank() != 1 || (length != nullptr && *length != count)) {
      n.Invalid("scales or sizes have another length than there are axes");
    }
    return length != nullptr ? list : list.Reshape({count});  // checked when it runs
  };
  auto by_scales = [&]() -> ResizePlan {
    const size_t input = old ? 1 : 2;
    Term scales =
        upsample && n.version() < 9
            ? Term(n, n.Const(ArrayOf(n.Floats("scales"), {static_cast<int64_t>(n.Floats("scales").size())}, kFloat32)))
            : In(n, input).As(kFloat32);
    scales = check(scales);
    // NaN is not above 0 either.
    Term above = AtLeast((scales > 0.0).As(kInt64), 1, "1 for a scale above 0, else 0:");
    // In float32, as the standard has the scales: 10 x 0.7f is 7.
    return {axes, (scales * dims.As(kFloat32)).Op("floor").As(kInt64) * above, scales};
  };
  ResizePlan plan = by_sizes ? FromSizes(n, axes, dims, check(In(n, 3).As(kInt64))) : by_scales();
  const bool crop = transform == "tf_crop_and_resize";
  const bool stretches = by_sizes && n.Str("keep_aspect_ratio_policy", "stretch") == "stretch";
  const auto count = static_cast<int64_t>(axes.size());
  Term roi = crop ? In(n, 1).As(kFloat32) : Term(n, n.Const(ArrayOf(std::vector<double>(2, 0.0), {2}, kFloat32)));
  const DataType dtype = x.dtype();
  if (mode != "nearest" && dtype != kFloat64) x = x.As(kFloat32);
  auto known = n.IsKnown(old ? 1 : 2) && !by_sizes && !(upsample && n.version() < 9)
                   ? n.ConstantFloats(old ? 1 : 2, "scales")
                   : std::vector<double>();
  for (int64_t i = 0; i < count; ++i) {
    if (!crop && !known.empty() && known[static_cast<size_t>(i)] == 1) continue;
    if (!crop && by_sizes && KeepsSize(x, axes[static_cast<size_t>(i)], KnownSize(plan.sizes.Element(i)))) continue;
    const Term size = SizeOfSampled(x, static_cast<int>(axes[static_cast<size_t>(i)]), plan.sizes.Element(i));
    Term part = crop ? Stack({roi.Element(i), roi.Element(count + i)}) : roi;
    x = Term(n, n.Call("dyn.resize_axis", {x, size, plan.scales.Element(i), part},
                       {{"axis", axes[static_cast<size_t>(i)]},
                        {"method", mode},
                        {"transform", transform},
                        {"rounding", old ? std::string("floor") : n.Str("nearest_mode", "round_prefer_floor")},
                        {"cubic_alpha", n.Float("cubic_coeff_a", -0.75)},
                        {"exclude_outside", n.Flag("exclude_outside", false)},
                        {"antialias", n.Flag("antialias", false)},
                        {"extrapolation_value", n.Float("extrapolation_value", 0.0)},
                        {"by_size", stretches}}));
  }
  if (x.dtype() == dtype || !dtype.is_integral()) return x.As(dtype);
  // Digits are cut off: what is an integer but for the rounding of weights has to be that one first.
  Term nearest = x.Op("round");
  return ((x - nearest).Op("abs") <= 1.0 / 8192).Select(nearest, x).As(dtype);
}

}  // namespace treadle::onnx
