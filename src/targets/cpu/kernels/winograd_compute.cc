// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/winograd_compute.h"

#include "ops/macs.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/winograd_transform.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/compute.h"

namespace treadle::ops::cpu {

using te::Tensor;

PrimExpr ChooseUnrolled(const PrimExpr& index, const std::vector<PrimExpr>& values) {
  PrimExpr result = values.back();
  for (size_t i = values.size() - 1; i-- > 0;) {
    result = tir::Select(tir::equal(index, PrimExpr(static_cast<int64_t>(i))), values[i], result);
  }
  return result;
}

namespace {

constexpr int64_t kTaps = 3;

struct WinogradSizes {
  int64_t m, a, step, pad_top, pad_left;  ///< tiles of m x m outputs, from a x a inputs that start `step` apart
  PrimExpr tiles_y, tiles_x;
  /// The image's size is dynamic. All stages have the tiles of an image as one axis then, so that a strip is any number
  /// of them; else some have rows and columns of tiles, and share a padded input.
  bool dynamic;

  WinogradSizes(const Conv2DAttrs* attrs, const Tensor& kernel, const TensorTypeNode* type) {
    const std::vector<int64_t> pads = NormalizePadding(attrs->padding, 2);
    a = DimValue(kernel->shape[0]);
    m = TileOf(a);
    step = m * StrideOf(a);
    pad_top = pads[0];
    pad_left = pads[1];
    tiles_y = tir::ceildiv(type->shape[2], m);
    tiles_x = tir::ceildiv(type->shape[3], m);
    dynamic = AsConstInt(tiles_y * tiles_x) == nullptr;
  }

  /// before..., tiles, after...
  Array<PrimExpr> Tiles(Array<PrimExpr> before, std::initializer_list<PrimExpr> after) const {
    if (dynamic) {
      before.push_back(tiles_y * tiles_x);
    } else {
      before.push_back(tiles_y);
      before.push_back(tiles_x);
    }
    for (const PrimExpr& dim : after) before.push_back(dim);
    return before;
  }
  /// Names of its axes.
  std::vector<std::string> Names(const char* channels, const std::vector<std::string>& after) const {
    std::vector<std::string> names{"n", channels};
    for (const char* axis : dynamic ? std::vector{"tile"} : std::vector{"ty", "tx"}) names.emplace_back(axis);
    names.insert(names.end(), after.begin(), after.end());
    return names;
  }
  /// Its indices for tile (ty, tx).
  Array<PrimExpr> At(Array<PrimExpr> before, const PrimExpr& ty, const PrimExpr& tx,
                     std::initializer_list<PrimExpr> after) const {
    if (dynamic) {
      before.push_back(ty * tiles_x + tx);
    } else {
      before.push_back(ty);
      before.push_back(tx);
    }
    for (const PrimExpr& index : after) before.push_back(index);
    return before;
  }
  /// Indices of tile `flat`, which counts those of the image.
  Array<PrimExpr> AtFlat(Array<PrimExpr> before, const PrimExpr& flat, std::initializer_list<PrimExpr> after) const {
    if (!dynamic) return At(std::move(before), tir::floordiv(flat, tiles_x), tir::floormod(flat, tiles_x), after);
    before.push_back(flat);
    for (const PrimExpr& index : after) before.push_back(index);
    return before;
  }
};

/// data where (h, w) lies within, else `pad`.
PrimExpr Padded(const Tensor& data, const Array<te::Var>& i, const PrimExpr& h, const PrimExpr& w,
                const PrimExpr& pad) {
  const PrimExpr inside = h >= 0 && h < data->shape[2] && w >= 0 && w < data->shape[3];
  return tir::if_then_else(inside, data(Array<PrimExpr>{i[0], i[1], h, w, i[i.size() - 1]}), pad);
}

/// The input with `pad` around: of full tiles (N, CB, rows, columns, ib), or of each tile (N, CB, tiles, a, a, ib).
Tensor PaddedInput(const Tensor& data, const WinogradSizes& s, const PrimExpr& pad) {
  Array<PrimExpr> shape = data->shape;
  std::vector<std::string> names{"n", "cb", "h", "w", "ci"};
  if (s.dynamic) {
    shape = s.Tiles({shape[0], shape[1]}, {s.a, s.a, shape[4]});
    names = s.Names("cb", {"y", "x", "ci"});
  } else {
    shape.Set(2, s.tiles_y * s.step + (s.a - s.step));
    shape.Set(3, s.tiles_x * s.step + (s.a - s.step));
  }
  return te::Compute(
      shape,
      [&](const Array<te::Var>& i) {
        if (!s.dynamic) return Padded(data, i, i[2] - s.pad_top, i[3] - s.pad_left, pad);
        const PrimExpr ty = tir::floordiv(i[2], s.tiles_x), tx = tir::floormod(i[2], s.tiles_x);
        return Padded(data, i, ty * s.step + i[3] - s.pad_top, tx * s.step + i[4] - s.pad_left, pad);
      },
      "winograd_pad", "winograd_pad", StageAttrs(kWinogradConv, "pad"), names);
}

/// The transform of the columns of each tile: (N, CB, tiles, points, inputs, ib).
Tensor TransformRows(const WinogradSizes& s, const Tensor& padded) {
  const PrimExpr side(s.a), lanes = padded->shape[padded->shape.size() - 1];
  return te::Compute(
      s.Tiles({padded->shape[0], padded->shape[1]}, {side, side, lanes}),
      [&](const Array<te::Var>& i) {
        const PrimExpr x = i[i.size() - 2], lane = i[i.size() - 1];
        std::vector<PrimExpr> d;
        for (int64_t y = 0; y < s.a; ++y) {
          d.push_back(s.dynamic ? padded(Array<PrimExpr>{i[0], i[1], i[2], y, x, lane})
                                : padded(Array<PrimExpr>{i[0], i[1], i[2] * s.step + y, i[3] * s.step + x, lane}));
        }
        return ChooseUnrolled(i[i.size() - 3], InputTransform(s.a, d));
      },
      "winograd_rows", "winograd_rows", StageAttrs(kWinogradConv, "rows"), s.Names("cb", {"i", "x", "ci"}));
}

/// Of points first: a, a, N, channels, tiles, lanes.
Array<PrimExpr> PointsFirst(const WinogradSizes& s, const PrimExpr& batch, const PrimExpr& channels,
                            const PrimExpr& lanes) {
  return {s.a, s.a, batch, channels, s.tiles_y * s.tiles_x, lanes};
}

/// That of their rows, points first.
Tensor TransformInput(const WinogradSizes& s, const Tensor& rows) {
  return te::Compute(PointsFirst(s, rows->shape[0], rows->shape[1], rows->shape[rows->shape.size() - 1]),
                     [&](const Array<te::Var>& i) {
                       std::vector<PrimExpr> d;
                       for (int64_t x = 0; x < s.a; ++x)
                         d.push_back(rows(s.AtFlat({i[2], i[3]}, i[4], {i[0], x, i[5]})));
                       return ChooseUnrolled(i[1], InputTransform(s.a, d));
                     },
                     "winograd_input", "winograd_input", StageAttrs(kWinogradConv, "input"),
                     {"i", "j", "n", "cb", "tile", "ci"});
}

/// For each point the product of tiles and channels with the kernel's, which has the blocks of one group.
Tensor MultiplyPoints(const WinogradSizes& s, int64_t groups, const Tensor& input, const Tensor& kernel,
                      const TensorTypeNode* type, const Problem& problem, const WinogradElements& elements) {
  const PrimExpr outputs = tir::floordiv(type->shape[1], PrimExpr(groups));
  te::IterVar cb = te::ReduceAxis(tir::Range(kernel->shape[3]), "ic"),
              ci = te::ReduceAxis(tir::Range(kernel->shape[4]), "ici");
  return te::Compute(PointsFirst(s, type->shape[0], type->shape[1], type->shape[4]),
                     [&](const Array<te::Var>& i) -> PrimExpr {
                       PrimExpr block = cb->var;
                       if (groups > 1) block = tir::floordiv(i[3], outputs) * kernel->shape[3] + block;
                       auto channel = [&](const PrimExpr& c) {
                         return input(Array<PrimExpr>{i[0], i[1], i[2], block, i[4], c});
                       };
                       const PrimExpr weight = kernel(Array<PrimExpr>{i[0], i[1], i[3], cb->var, ci->var, i[5]});
                       return te::Sum(elements.term(channel, ci->var, weight), {cb, ci});
                     },
                     "winograd_product", "winograd_product", AnchorAttrs(kWinogradConv, "product", problem),
                     {"i", "j", "n", "oc", "tile", "oci"});
}

/// The outputs of each tile: (N, OC/ob, tiles, m, m, ob).
Tensor TransformProduct(const WinogradSizes& s, const Tensor& product, const TensorTypeNode* type,
                        const WinogradElements& elements) {
  const PrimExpr m(s.m), side(s.a), lanes = type->shape[4];
  const size_t y_axis = s.dynamic ? 3 : 4, x_axis = y_axis + 1, lane_axis = y_axis + 2;
  auto tile_of = [&](const Array<te::Var>& i) { return s.dynamic ? PrimExpr(i[2]) : i[2] * s.tiles_x + i[3]; };
  Tensor columns = te::Compute(
      s.Tiles({type->shape[0], type->shape[1]}, {m, side, lanes}),
      [&](const Array<te::Var>& i) {
        std::vector<PrimExpr> v;
        for (int64_t y = 0; y < s.a; ++y) {
          v.push_back(product(Array<PrimExpr>{y, i[x_axis], i[0], i[1], tile_of(i), i[lane_axis]}));
        }
        return ChooseUnrolled(i[y_axis], elements.outputs(s.a, v));
      },
      "winograd_columns", "winograd_columns", StageAttrs(kWinogradConv, "columns"), s.Names("oc", {"y", "j", "oci"}));
  return te::Compute(
      s.Tiles({type->shape[0], type->shape[1]}, {m, m, lanes}),
      [&](const Array<te::Var>& i) {
        std::vector<PrimExpr> v;
        for (int64_t x = 0; x < s.a; ++x) {
          Array<PrimExpr> at(i.begin(), i.end());
          at.Set(x_axis, x);
          v.push_back(columns(at));
        }
        return elements.finish(ChooseUnrolled(i[x_axis], elements.outputs(s.a, v)), i[y_axis], i[x_axis]);
      },
      "winograd_tile", "winograd_tile", StageAttrs(kWinogradConv, "tile"), s.Names("oc", {"y", "x", "oci"}));
}

}  // namespace

Array<Tensor> WinogradSums(const Conv2DAttrs* attrs, const Tensor& data, const Tensor& kernel,
                           const TensorTypeNode* type, const Problem& problem, const WinogradElements& elements) {
  const WinogradSizes s(attrs, kernel, type);
  const Tensor input = TransformInput(s, TransformRows(s, PaddedInput(data, s, elements.pad)));
  const Tensor tile =
      TransformProduct(s, MultiplyPoints(s, attrs->groups, input, kernel, type, problem, elements), type, elements);
  const PrimExpr m(s.m);
  return {te::Compute(type->shape,
                      [&](const Array<te::Var>& i) {
                        return tile(s.At({i[0], i[1]}, tir::floordiv(i[2], m), tir::floordiv(i[3], m),
                                         {tir::floormod(i[2], m), tir::floormod(i[3], m), i[4]}));
                      },
                      "winograd_output", "injective,winograd_output", {}, {"n", "oc", "oh", "ow", "oci"})};
}

Problem WinogradLoopsProblem(const Conv2DAttrs* attrs, const Tensor& data, const Tensor& kernel,
                             const TensorTypeNode* type) {
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    SetBlockedSizes(attrs, data->shape, type->shape, &p);
    p.kh = p.kw = kTaps;
    p.winograd_side = DimValue(kernel->shape[0]);
    p.ic = DimValue(kernel->shape[3]) * DimValue(kernel->shape[4]) * p.groups;
  });
}

std::string WhyNotWinogradWindow(const ConvProblemNode& p, bool of_groups) {
  if (p.kh != kTaps || p.kw != kTaps) return StrCat("the kernel is ", p.kh, " x ", p.kw, ", not 3 x 3");
  if (p.stride_h != p.stride_w || p.stride_h > 2) return "strides are neither 1 nor 2";
  if (p.dilation_h != 1 || p.dilation_w != 1) return "the kernel is dilated";
  return of_groups || p.groups == 1 ? "" : StrCat(p.groups, " groups");
}

Type WinogradType(const InferContext& context, int64_t per_part, DataType sum) {
  const auto* data = context.Tensor(0, "data");
  const auto* kernel = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<Conv2DAttrs>();
  CheckRank(data, 5, "data");
  CheckRank(kernel, 6, "weight");
  int64_t side = DimValue(kernel->shape[0]);
  const int64_t stride = StrideOf(side);
  bool fits = (side == 4 || side == 6 || side == kStridedSide) && DimValue(kernel->shape[1]) == side &&
              attrs->strides == std::vector<int64_t>(2, stride) &&
              context.Equal(kernel->shape[3] * attrs->groups, data->shape[1]) &&
              context.Equal(kernel->shape[4] * per_part, data->shape[4]);
  if (!fits) {
    throw ShapeError(StrCat(
        "a transformed weight is (a, a, OC/ob, IC/groups/ib, ib, ob) with a = 4 or 6, or 5 for stride 2, this is ",
        ShapeText(kernel->shape), " for data ", ShapeText(data->shape)));
  }
  std::vector<int64_t> pads = NormalizePadding(attrs->padding, 2);
  for (size_t i = 0; i < 2; ++i) RequireWindow(context, data->shape[2 + i], pads[i] + pads[2 + i], 3);
  return TensorType({data->shape[0], kernel->shape[2], WindowDim(data->shape[2], pads[0] + pads[2], 3, stride),
                     WindowDim(data->shape[3], pads[1] + pads[3], 3, stride), kernel->shape[5]},
                    sum);
}

double WinogradMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * 9 * DimOf(arguments[1], 3) * DimOf(arguments[0], 4);
}

double WinogradMacShare(const Array<Type>& arguments) {
  const double side = DimOf(arguments[1], 0), outputs = static_cast<double>(TileOf(static_cast<int64_t>(side)));
  return side * side / (outputs * outputs * kTaps * kTaps);
}

}  // namespace treadle::ops::cpu
