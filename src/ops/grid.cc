// SPDX-License-Identifier: Apache-2.0
// Sampling at computed positions. Semantics: ONNX GridSample-16 and -20, AffineGrid-20 (2-D).
#include "ops/conv.h"
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/image.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/data_reads.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(GridSampleAttrs);
TREADLE_DEFINE_NODE(AffineGridAttrs);

namespace {

PrimExpr F(double value) { return tir::make_const(DataType::Float(32), value); }

/// data (N, C, spatial), grid (N, spatial rank, output spatial): coordinates x, y, (z) in [-1, 1].
Type GridSampleInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* grid = context.Tensor(1, "grid");
  const auto* attrs = context.attrs<GridSampleAttrs>();
  size_t rank = attrs->layout == "NCHW" ? 2 : attrs->layout == "NCDHW" ? 3 : 0;
  if (rank == 0) throw ShapeError(StrCat("layout must be NCHW or NCDHW, not \"", attrs->layout, "\""));
  if (attrs->method != "bilinear" && attrs->method != "nearest" && (attrs->method != "bicubic" || rank != 2)) {
    throw ShapeError(StrCat("method \"", attrs->method, "\" isn't implemented for layout ", attrs->layout));
  }
  if (attrs->padding_mode != "zeros" && attrs->padding_mode != "border" && attrs->padding_mode != "reflection") {
    throw ShapeError(StrCat("padding_mode must be zeros, border or reflection, not \"", attrs->padding_mode, "\""));
  }
  CheckRank(data, rank + 2, "data");
  CheckRank(grid, rank + 2, "grid");
  if (DimValue(grid->shape[1]) != static_cast<int64_t>(rank)) {
    throw ShapeError(StrCat("grid must have ", rank, " coordinates in dimension 1, not ", TypeText(grid)));
  }
  CheckDim(context, grid, 0, "grid", data->shape[0], "data");
  Array<PrimExpr> out = {data->shape[0], data->shape[1]};
  for (size_t i = 0; i < rank; ++i) {
    RequireNonEmpty(context, data, 2 + i);
    out.push_back(grid->shape[2 + i]);
  }
  return TensorType(out, data->dtype);
}

/// One spatial dimension of `size` elements.
struct GridAxis {
  const GridSampleAttrs& attrs;
  PrimExpr size;

  PrimExpr FloatSize() const { return tir::cast(DataType::Float(32), size); }
  /// Pixel position of a coordinate in [-1, 1].
  PrimExpr Position(const PrimExpr& coordinate) const {
    if (attrs.align_corners) return (coordinate + F(1)) * F(0.5) * (FloatSize() - F(1));
    return ((coordinate + F(1)) * FloatSize() - F(1)) * F(0.5);
  }
  /// The position mirrored into the image as often as needed.
  PrimExpr Reflect(const PrimExpr& x) const {
    PrimExpr low = attrs.align_corners ? F(0) : F(-0.5);
    PrimExpr span = attrs.align_corners ? FloatSize() - F(1) : FloatSize();
    PrimExpr distance = tir::abs(x - low);
    PrimExpr period = tir::max(span, F(1e-6));
    PrimExpr times = tir::floor(tir::div(distance, period));
    PrimExpr rest = distance - times * period;
    PrimExpr odd = tir::greater(times - F(2) * tir::floor(times * F(0.5)), F(0.5));
    return tir::select(odd, span - rest + low, rest + low);
  }
  /// A pixel position as padding_mode has it.
  PrimExpr Padded(const PrimExpr& x) const {
    PrimExpr last = FloatSize() - F(1);
    if (attrs.padding_mode == "border") return tir::max(tir::min(x, last), F(0));
    if (attrs.padding_mode == "reflection") return tir::max(tir::min(Reflect(x), last), F(0));
    return x;
  }
  /// Whether the position lies in a pixel of the image.
  PrimExpr WithinBorder(const PrimExpr& x) const {
    const double half = attrs.align_corners ? 0 : 0.5;
    return x >= F(-half) && x <= FloatSize() - F(1 - half);
  }
  PrimExpr Inside(const PrimExpr& x) const { return x >= F(0) && x <= FloatSize() - F(1); }
  PrimExpr SafeIndexOf(const PrimExpr& x) const { return Clamp(tir::cast(DataType::Int(64), x), Index(0), size - 1); }
};

/// A pixel that contributes, along one dimension.
struct GridTap {
  PrimExpr position, weight;
};

/// The position that taps are counted from. Bicubic pads the taps, and the position only where it isn't within the
/// image's border.
PrimExpr GridCentre(const GridAxis& axis, const PrimExpr& x) {
  if (axis.attrs.method != "bicubic") return axis.Padded(x);
  return axis.attrs.padding_mode == "border" ? tir::select(axis.WithinBorder(x), x, axis.Padded(x)) : x;
}

std::vector<GridTap> GridTaps(const GridAxis& axis, const PrimExpr& at) {
  const std::string& method = axis.attrs.method;
  if (method == "nearest") return {{tir::nearbyint(at), F(1)}};
  PrimExpr base = tir::floor(at);
  PrimExpr t = at - base;
  if (method == "bilinear") return {{base, F(1) - t}, {base + F(1), t}};
  // The kernel is Keys' with a = -0.75.
  const double a = -0.75;
  auto near = [&](const PrimExpr& d) { return ((F(a + 2) * d - F(a + 3)) * d) * d + F(1); };
  auto far = [&](const PrimExpr& d) { return ((F(a) * d - F(5 * a)) * d + F(8 * a)) * d - F(4 * a); };
  return {{axis.Padded(base - F(1)), far(t + F(1))},
          {axis.Padded(base), near(t)},
          {axis.Padded(base + F(1)), near(F(1) - t)},
          {axis.Padded(base + F(2)), far(F(2) - t)}};
}

/// Where results read, and what that counts: the same for all channels.
struct GridTable {
  std::vector<Tensor> places;  ///< of each tap, (N, output spatial): elements after the first; -1 where it lies beyond
                               ///< an image padded by zeros
  std::vector<Tensor> weights;
};

/// The spatial dimensions of the sampled image as one: its pixels are numbered in row-major order.
struct GridImage {
  std::vector<GridAxis> axes;
  DataType place_dtype;

  GridImage(const GridSampleAttrs& attrs, const Tensor& data) {
    PrimExpr size = Index(1);
    for (size_t d = 2; d < data.ndim(); ++d) {
      axes.push_back({attrs, data->shape[d]});
      size = size * data->shape[d];
    }
    const int64_t* known = AsConstInt(size);
    place_dtype = DataType::Int(known != nullptr && *known <= INT32_MAX ? 32 : 64);
  }
  /// Of the pixel at a position per dimension.
  PrimExpr PlaceOf(const std::vector<GridTap>& taps) const {
    PrimExpr place = Index(0), inside;
    for (size_t d = 0; d < axes.size(); ++d) {
      place = place * axes[d].size + axes[d].SafeIndexOf(taps[d].position);
      const PrimExpr here = axes[d].Inside(taps[d].position);
      inside = inside.defined() ? inside && here : here;
    }
    place = tir::cast(place_dtype, place);
    const bool zeros = axes[0].attrs.padding_mode == "zeros";
    return zeros ? tir::select(inside, place, tir::make_const(place_dtype, -1)) : place;
  }
  Array<PrimExpr> IndexOf(PrimExpr place) const {
    std::vector<PrimExpr> index(axes.size());
    for (size_t d = axes.size(); d-- > 0;) {
      index[d] = d == 0 ? place : tir::floormod(place, axes[d].size);
      place = tir::floordiv(place, axes[d].size);
    }
    return index;
  }
};

GridTable TableOf(const GridImage& image, const Tensor& grid, const TensorTypeNode* out) {
  const size_t rank = image.axes.size();
  Array<PrimExpr> shape = out->shape;
  shape.erase(1);
  // Computed once: places and weights that belong to different ones, for a position rounds either way, would be wrong.
  std::vector<Tensor> centres;
  for (size_t d = 0; d < rank; ++d) {
    const auto centre = [&](const Array<PrimExpr>& i) {
      // Coordinates are listed from the last dimension on.
      Array<PrimExpr> from = i;
      from.insert(1, Index(static_cast<int64_t>(rank - 1 - d)));
      return GridCentre(image.axes[d], image.axes[d].Position(tir::cast(DataType::Float(32), grid(from))));
    };
    centres.push_back(Compute(shape, centre, StrCat("grid_centre", d), "grid_table"));
  }
  const std::string& method = image.axes[0].attrs.method;
  const size_t taps = method == "nearest" ? 1 : method == "bilinear" ? 2 : 4;
  size_t count = 1;
  for (size_t d = 0; d < rank; ++d) count *= taps;
  GridTable table;
  for (size_t k = 0; k < count; ++k) {
    const auto taps_of = [&, k](const Array<PrimExpr>& i) {
      std::vector<GridTap> chosen(rank);
      for (size_t d = rank, rest = k; d-- > 0; rest /= taps)
        chosen[d] = GridTaps(image.axes[d], centres[d](i))[rest % taps];
      return chosen;
    };
    const auto weight = [&](const Array<PrimExpr>& i) {
      PrimExpr product;
      for (const GridTap& tap : taps_of(i)) product = product.defined() ? product * tap.weight : tap.weight;
      return product;
    };
    table.places.push_back(Compute(
        shape, [&](const Array<PrimExpr>& i) { return image.PlaceOf(taps_of(i)); }, StrCat("grid_place", k),
        "grid_table"));
    table.weights.push_back(Compute(shape, weight, StrCat("grid_weight", k), "grid_table"));
  }
  return table;
}

Array<Tensor> GridSampleCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<GridSampleAttrs>();
  const Tensor& data = inputs[0];
  const TensorTypeNode* out = OutTensor(out_type);
  const GridImage image(*a, data);
  const GridTable table = TableOf(image, inputs[1], out);
  const bool zeros = a->padding_mode == "zeros";
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> row = i;
        row.erase(1);
        PrimExpr total;
        for (size_t k = 0; k < table.places.size(); ++k) {
          const PrimExpr place = tir::cast(DataType::Int(64), table.places[k](row));
          Array<PrimExpr> at{i[0], i[1]};
          for (const PrimExpr& index : image.IndexOf(zeros ? tir::max(place, Index(0)) : place)) at.push_back(index);
          PrimExpr value = tir::cast(DataType::Float(32), data(at));
          if (zeros) value = tir::select(place >= Index(0), value, F(0));
          const PrimExpr term = value * table.weights[k](row);
          total = total.defined() ? total + term : term;
        }
        return tir::cast(out->dtype, total);
      },
      "grid_sample", tag::kInjective)};
}

/// data (N, 2, 3) -> (N, 2, height, width): the coordinates x, y that grid_sample takes.
Type AffineGridInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<AffineGridAttrs>();
  CheckRank(data, 3, "data");
  CheckSpatial(attrs->target_shape, 2, 1, "target_shape");
  if (DimValue(data->shape[1]) != 2 || DimValue(data->shape[2]) != 3) {
    throw ShapeError(StrCat("data must have shape (batch, 2, 3), not ", TypeText(data)));
  }
  return TensorType({data->shape[0], Dim(2), Dim(attrs->target_shape[0]), Dim(attrs->target_shape[1])}, data->dtype);
}

Array<Tensor> AffineGridCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<AffineGridAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& theta = inputs[0];
  // -1 and 1 are the centres of the corner pixels; the one pixel of a dimension is at -1.
  auto coordinate = [&](const PrimExpr& i, int64_t size) {
    double step = size > 1 ? 2.0 / static_cast<double>(size - 1) : 0;
    return tir::cast(out->dtype, i) * tir::make_const(out->dtype, step) - tir::make_const(out->dtype, 1.0);
  };
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr y = coordinate(i[2], a->target_shape[0]);
        PrimExpr x = coordinate(i[3], a->target_shape[1]);
        return theta(i[0], i[1], Index(0)) * x + theta(i[0], i[1], Index(1)) * y + theta(i[0], i[1], Index(2));
      },
      "affine_grid", tag::kInjective)};
}

}  // namespace

void RegisterGridOps() {
  OpRegistration("image.grid_sample")
      .Describe("Samples an image at positions given by a grid.")
      .Arguments({{"data", "Tensor", "(N, C, spatial)"}, {"grid", "Tensor", "(N, coordinates, output spatial)"}})
      .AttrsType<GridSampleAttrs>()
      .SupportLevel(5)
      .Relation(Rule<GridSampleInfer>)
      .Set(kOpPattern, OpPatternKind::kInjective)
      .Set(relay::kGathersData, true)
      .Set(kCompute, FTECompute(GridSampleCompute));
  OpRegistration("image.affine_grid")
      .Describe("The grid of an affine map.")
      .Arguments({{"data", "Tensor", "(N, 2, 3): the map"}})
      .AttrsType<AffineGridAttrs>()
      .SupportLevel(5)
      .Relation(Rule<AffineGridInfer>)
      .Set(kOpPattern, OpPatternKind::kInjective)
      .Set(kCompute, FTECompute(AffineGridCompute));
}

}  // namespace treadle::ops
