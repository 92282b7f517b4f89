// SPDX-License-Identifier: Apache-2.0
// Resampling of images: to a size, at computed positions, in boxes.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/dynamic_rules.h"
#include "frontend/onnx/rules.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

constexpr const char* kResize[] = {"image.resize1d", "image.resize2d", "image.resize3d"};
constexpr const char* kLayout[] = {"NCW", "NCHW", "NCDHW"};
constexpr const char* kChannelsLast[] = {"NWC", "NHWC", "NDHWC"};

/// What a resampling does to each dimension of its operand.
struct Resampling {
  Ints shape;      ///< of the operand
  Ints sizes;      ///< of the result
  Doubles scales;  ///< as the coordinate transformation uses them
  Doubles roi_begin, roi_end;
};

Expr Resample(NodeImport& n, const Resampling& r, AttrList attrs, bool crop) {
  Expr x = n.In(0);
  if (!crop && r.sizes == r.shape && std::all_of(r.scales.begin(), r.scales.end(), [](double s) { return s == 1; })) {
    return x;
  }
  const size_t rank = r.shape.size();
  auto keeps = [&](size_t d) {
    return r.sizes[d] == r.shape[d] && r.scales[d] == 1 && (!crop || (r.roi_begin[d] == 0 && r.roi_end[d] == 1));
  };
  // The operator resamples the trailing dimensions of [N, C, ...], or those between in [N, ..., C]: dimensions in front
  // that keep their size are N, C, those behind C.
  size_t first = 0, end = rank;
  while (first < rank && keeps(first)) ++first;
  if (rank == first) return x;
  while (keeps(end - 1)) --end;
  const bool channels_last = end < rank && end - first <= 3;
  size_t spatial = end - first;
  if (!channels_last) {
    spatial = std::max<size_t>(rank - first, rank >= 3 && rank - first <= rank - 2 ? rank - 2 : 1);
    if (spatial > 3) spatial = rank - first;
    if (spatial > 3) return ImportResizeByAxis(n);
    end = rank;
    first = rank - spatial;
  }
  Ints flat{1, 1};
  for (size_t i = 0; i < first; ++i) flat[first == 2 && !channels_last ? i : 1] *= r.shape[i];
  if (channels_last) flat.erase(flat.begin());
  flat.insert(flat.end(), r.shape.begin() + static_cast<std::ptrdiff_t>(first),
              r.shape.begin() + static_cast<std::ptrdiff_t>(end));
  if (channels_last) {
    flat.push_back(1);
    for (size_t i = end; i < rank; ++i) flat.back() *= r.shape[i];
  }
  auto tail = [&](const auto& values) {
    return std::decay_t<decltype(values)>(values.begin() + static_cast<std::ptrdiff_t>(first),
                                          values.begin() + static_cast<std::ptrdiff_t>(end));
  };
  attrs.push_back({"size", tail(r.sizes)});
  attrs.push_back({"scales", tail(r.scales)});
  attrs.push_back({"layout", (channels_last ? kChannelsLast : kLayout)[spatial - 1]});
  if (crop) {
    Doubles roi = tail(r.roi_begin);
    Doubles ends = tail(r.roi_end);
    roi.insert(roi.end(), ends.begin(), ends.end());
    attrs.push_back({"roi", roi});
  }
  // A 0 is the size of a dimension here.
  auto reshape = [&](const Expr& of, const Ints& shape) {
    return n.Call("reshape", {of}, {{"newshape", shape}, {"allowzero", true}});
  };
  Expr y = n.Call(kResize[spatial - 1], {flat == r.shape ? x : reshape(x, flat)}, attrs);
  return flat == r.shape ? y : reshape(y, r.sizes);
}

std::string Method(NodeImport& n, const std::string& mode) {
  if (mode == "nearest") return "nearest_neighbor";
  if (mode == "linear" || mode == "bilinear") return "linear";
  if (mode == "cubic") return "cubic";
  n.Invalid(StrCat("'mode' is ", QuoteName(mode)));
}

/// Refuses what no version of Resize has, whichever way the node is imported.
void CheckModes(NodeImport& n) {
  auto check = [&](const char* name, const char* otherwise, const std::set<std::string>& known) {
    const std::string value = n.Str(name, otherwise);
    if (known.count(value) == 0) n.Invalid(StrCat("'", name, "' is ", QuoteName(value)));
  };
  Method(n, n.Str("mode", "nearest"));
  if (n.version() == 10) return;
  check("coordinate_transformation_mode", "half_pixel",
        {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
         "tf_half_pixel_for_nn", "tf_crop_and_resize"});
  check("nearest_mode", "round_prefer_floor", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
}

int64_t ScaledSize(NodeImport& n, int64_t size, double scale) {
  if (!(scale > 0) || scale > 1e9) n.Invalid(StrCat("a scale is ", scale));
  // In float32, as the standard has the scales: 10 x 0.7f is 7.
  double result = std::floor(static_cast<float>(size) * static_cast<float>(scale));
  if (result > 9e15) n.Invalid("the result is too large");
  return static_cast<int64_t>(result);
}

void SetFromScales(NodeImport& n, Resampling& r, const Ints& axes, const Doubles& scales) {
  if (scales.size() != axes.size())
    n.Invalid(StrCat("there are ", scales.size(), " scales for ", axes.size(), " axes"));
  for (size_t i = 0; i < axes.size(); ++i) {
    auto d = static_cast<size_t>(axes[i]);
    r.scales[d] = scales[i];
    r.sizes[d] = ScaledSize(n, r.shape[d], scales[i]);
  }
}

/// Sizes, possibly shrunk or grown so that all axes have one scale.
void SetFromSizes(NodeImport& n, Resampling& r, const Ints& axes, const Ints& sizes) {
  if (sizes.size() != axes.size()) n.Invalid(StrCat("there are ", sizes.size(), " sizes for ", axes.size(), " axes"));
  std::string policy = n.Str("keep_aspect_ratio_policy", "stretch");
  Doubles ratios;
  for (size_t i = 0; i < axes.size(); ++i) {
    auto d = static_cast<size_t>(axes[i]);
    if (sizes[i] < 0) n.Invalid(StrCat("a size is ", sizes[i]));
    if (r.shape[d] == 0 && sizes[i] != 0) n.Invalid(StrCat("dimension ", d, " is empty, and has to become ", sizes[i]));
    ratios.push_back(r.shape[d] == 0 ? 1 : static_cast<double>(sizes[i]) / static_cast<double>(r.shape[d]));
  }
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller") {
    n.Invalid(StrCat("'keep_aspect_ratio_policy' is ", QuoteName(policy)));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    auto d = static_cast<size_t>(axes[i]);
    r.sizes[d] = sizes[i];
    r.scales[d] = ratios[i];
    if (policy == "stretch") continue;
    double ratio = policy == "not_larger" ? *std::min_element(ratios.begin(), ratios.end())
                                          : *std::max_element(ratios.begin(), ratios.end());
    r.scales[d] = ratio;
    r.sizes[d] = static_cast<int64_t>(std::round(ratio * static_cast<double>(r.shape[d])));
  }
}

/// Inputs: X, roi, scales, sizes (version 10: X, scales). The roi only counts for tf_crop_and_resize.
Expr ImportResize(NodeImport& n) {
  CheckModes(n);
  for (size_t i = 1; i < n.num_inputs(); ++i) {
    if (n.Has(i) && n.Rank(i) != 1) n.Invalid(StrCat("input ", i, " has rank ", n.Rank(i), ", expected a vector"));
  }
  auto given = [&](size_t i) { return !n.Has(i) || n.IsKnown(i); };
  const bool old_version = n.version() == 10;
  if (!given(old_version ? 1 : 2) ||
      (!old_version && !given(1) && n.Str("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize")) {
    return ImportResizeByAxis(n);
  }
  const bool counted = old_version || !n.Has(3) || AsConstInt(TypeOf(n.In(3))->shape[0]) != nullptr;
  if (!counted) return ImportResizeByAxis(n);
  if (!IsStatic(TypeOf(n.In(0))) || (!old_version && !given(3))) return ImportDynamicResize(n);
  Resampling r;
  r.shape = n.StaticShape(0);
  auto rank = static_cast<int>(r.shape.size());
  r.sizes = r.shape;
  r.scales.assign(r.shape.size(), 1);
  r.roi_begin.assign(r.shape.size(), 0);
  r.roi_end.assign(r.shape.size(), 1);
  bool old = n.version() == 10;
  std::string mode = n.Str("mode", "nearest");
  std::string transform = old ? "asymmetric" : n.Str("coordinate_transformation_mode", "half_pixel");
  std::string nearest = old ? "floor" : n.Str("nearest_mode", "round_prefer_floor");
  Ints axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  if (n.HasAttr("axes")) axes = n.Axes(n.Ints("axes"), rank);
  auto present = [&](size_t i) { return n.Has(i) && !(n.IsKnown(i) && n.Constant(i, "input").size() == 0); };
  size_t scales_input = old ? 1 : 2;
  bool crop = transform == "tf_crop_and_resize";
  if (!old && n.Has(1) && !crop) n.IgnoreInput(1);
  if (!old && present(3)) {
    if (present(2)) n.Invalid("both 'scales' and 'sizes' are given");
    n.IgnoreInput(2);
    SetFromSizes(n, r, axes, n.ConstantInts(3, "sizes"));
  } else {
    if (!present(scales_input)) n.Invalid("neither 'scales' nor 'sizes' is given");
    SetFromScales(n, r, axes, n.ConstantFloats(scales_input, "scales"));
    n.Ignore({"keep_aspect_ratio_policy"});
    n.IgnoreInput(3);
  }
  if (crop) {
    Doubles roi = n.ConstantFloats(1, "roi");
    if (roi.size() != 2 * axes.size()) n.Invalid(StrCat("'roi' has ", roi.size(), " entries"));
    for (size_t i = 0; i < axes.size(); ++i) {
      r.roi_begin[static_cast<size_t>(axes[i])] = roi[i];
      r.roi_end[static_cast<size_t>(axes[i])] = roi[axes.size() + i];
    }
  }
  AttrList attrs{{"method", Method(n, mode)}, {"coordinate_transformation_mode", transform}};
  if (mode == "nearest") attrs.push_back({"rounding_method", nearest});
  attrs.push_back({"cubic_alpha", n.Float("cubic_coeff_a", -0.75)});
  attrs.push_back({"cubic_exclude", n.Flag("exclude_outside", false)});
  attrs.push_back({"extrapolation_value", n.Float("extrapolation_value", 0.0)});
  attrs.push_back({"antialias", n.Flag("antialias", false) && mode != "nearest"});
  return Resample(n, r, attrs, crop);
}

/// Asymmetric coordinates, as Resize-10 has them. Version 1 scales height and width, 7 has the scales as attribute.
Expr ImportUpsample(NodeImport& n) {
  Method(n, n.Str("mode", "nearest"));
  if (n.version() > 1 && (!IsStatic(TypeOf(n.In(0))) || (n.version() == 9 && !n.IsKnown(1))))
    return ImportResizeByAxis(n);
  Resampling r;
  r.shape = n.StaticShape(0);
  r.sizes = r.shape;
  r.scales.assign(r.shape.size(), 1);
  Ints axes;
  for (size_t i = 0; i < r.shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  std::string mode = n.Str("mode", "nearest");
  Doubles scales;
  if (n.version() == 1) {
    if (r.shape.size() != 4) n.Invalid("the operand's rank isn't 4");
    scales = {1, 1, n.Float("height_scale"), n.Float("width_scale")};
  } else {
    scales = n.version() == 7 ? n.Floats("scales") : n.ConstantFloats(1, "scales");
  }
  SetFromScales(n, r, axes, scales);
  AttrList attrs{{"method", Method(n, mode)}, {"coordinate_transformation_mode", "asymmetric"}};
  if (mode == "nearest") attrs.push_back({"rounding_method", "floor"});
  return Resample(n, r, attrs, false);
}

/// (N, C, spatial), grid (N, output spatial, coordinates) -> (N, C, output spatial). Version 20 renames modes and adds
/// a third dimension.
Expr ImportGridSample(NodeImport& n) {
  const int rank = n.Rank(0);
  if (rank < 3) n.Invalid(StrCat("X has rank ", rank, ", expected at least 3"));
  if (rank != 4 && rank != 5) n.Unsupported(StrCat("sampling of ", rank - 2, " dimensions isn't implemented"));
  if (n.Rank(1) != rank) n.Invalid("X and grid differ in rank");
  static const std::map<std::string, const char*> kMethods = {{"bilinear", "bilinear"},
                                                              {"linear", "bilinear"},
                                                              {"nearest", "nearest"},
                                                              {"bicubic", "bicubic"},
                                                              {"cubic", "bicubic"}};
  const std::string mode = n.Str("mode", n.version() == 16 ? "bilinear" : "linear");
  auto method = kMethods.find(mode);
  if (method == kMethods.end()) n.Invalid(StrCat("mode \"", mode, "\" isn't one of the operator's"));
  Ints axes{0, rank - 1}, coordinates(static_cast<size_t>(rank), -1);
  for (int i = 1; i + 1 < rank; ++i) axes.push_back(i);
  coordinates.back() = rank - 2;
  Expr grid = n.In(1);
  if (AsConstInt(TypeOf(grid)->shape.back()) == nullptr) grid = WithSizes(In(n, 1), coordinates, "the grid");
  return n.Call("image.grid_sample", {n.In(0), n.Transpose(grid, axes)},
                {{"method", std::string(method->second)},
                 {"layout", std::string(rank == 4 ? "NCHW" : "NCDHW")},
                 {"padding_mode", n.Str("padding_mode", "zeros")},
                 {"align_corners", n.Flag("align_corners", false)}});
}

/// X (N, C, H, W), rois (boxes, 4), batch_indices (boxes). Before version 16 coordinates are those of pixels' corners.
Expr ImportRoiAlign(NodeImport& n) {
  const std::string mode =
      n.version() == 10 ? "output_half_pixel" : n.Str("coordinate_transformation_mode", "half_pixel");
  if (mode != "half_pixel" && mode != "output_half_pixel") {
    n.Invalid(StrCat("coordinate_transformation_mode \"", mode, "\" isn't one of the operator's"));
  }
  if (n.Rank(0) != 4) n.Invalid(StrCat("X has rank ", n.Rank(0), ", expected 4"));
  Expr images = n.Call("subtract", {DimOf(n, n.In(0), 0), n.Scalar(DataType::Int(64), 1)});
  Expr batch = CheckedValues(n, n.In(2), "at_most", images, "batch index");
  batch = n.ExpandDims(n.Cast(batch, n.DType(1)), 1);
  Expr rois = n.In(1);
  if (n.Rank(1) == 2 && AsConstInt(TypeOf(rois)->shape[1]) == nullptr)
    rois = WithSizes(In(n, 1), {-1, 4}, "the regions");
  return n.Call("vision.roi_align", {n.In(0), n.Concat({batch, rois}, 1)},
                {{"pooled_size", Ints{n.Int("output_height", 1), n.Int("output_width", 1)}},
                 {"spatial_scale", n.Float("spatial_scale", 1.0)},
                 {"sample_ratio", n.Int("sampling_ratio", 0)},
                 {"mode", n.Str("mode", "avg")},
                 {"aligned", mode == "half_pixel"}});
}

/// X (N, C, H, W), rois (boxes, 5): batch, x1, y1, x2, y2.
Expr ImportMaxRoiPool(NodeImport& n) {
  Term x = In(n, 0), rois = In(n, 1);
  if (rois.rank() != 2) n.Invalid(StrCat("the regions have rank ", rois.rank(), ", expected 2"));
  if (AsConstInt(rois.shape()[1]) == nullptr) rois = WithSizes(rois, {-1, 5}, "the regions");
  const Term column = rois.Slice(1, 0, 1);
  const Term batch = column.Op("isnan").Select(column.Number(-1), column).As(DataType::Int(64));  // NaN: of no image
  Term checked(n, CheckedValues(n, batch, "at_most", DimOf(x, 0) - 1.0, "batch index"));
  rois = Concat({checked.As(rois.dtype()), rois.Slice(1, 1, 5)}, 1);
  return n.Call("vision.roi_pool", {x, rois},
                {{"pooled_size", n.Ints("pooled_shape")}, {"spatial_scale", n.Float("spatial_scale", 1.0)}});
}

}  // namespace

void RegisterResizeRules(RuleTable& table) {
  table.Add1("Resize", {10, 11, 13, 18, 19}, ImportResize);
  table.Add1("Upsample", {1, 7, 9}, ImportUpsample);
  table.Add1("GridSample", {16, 20, 22}, ImportGridSample);
  table.Add1("RoiAlign", {10, 16, 22}, ImportRoiAlign);
  table.Add1("MaxRoiPool", {1, 22}, ImportMaxRoiPool);
}

}  // namespace treadle::onnx
