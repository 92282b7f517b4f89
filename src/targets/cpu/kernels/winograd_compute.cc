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
  /// Tiles are one axis, or, where the image's size is dynamic, rows and columns of them: indices stay linear.
  bool flat;

  WinogradSizes(const Conv2DAttrs* attrs, const Tensor& kernel, const TensorTypeNode* type) {
    const std::vector<int64_t> pads = NormalizePadding(attrs->padding, 2);
    a = DimValue(kernel->shape[0]);
    m = TileOf(a);
    step = m * StrideOf(a);
    pad_top = pads[0];
    pad_left = pads[1];
    tiles_y = tir::ceildiv(type->shape[2], m);
    tiles_x = tir::ceildiv(type->shape[3], m);
    flat = AsConstInt(tiles_y * tiles_x) != nullptr;
  }

  /// a, a, N, channels, tiles, lanes.
  Array<PrimExpr> Points(const PrimExpr& batch, const PrimExpr& channels, const PrimExpr& lanes) const {
    Array<PrimExpr> shape{a, a, batch, channels};
    for (const PrimExpr& dim : flat ? Array<PrimExpr>{tiles_y * tiles_x} : Array<PrimExpr>{tiles_y, tiles_x}) {
      shape.push_back(dim);
    }
    shape.push_back(lanes);
    return shape;
  }
  /// Names of its axes.
  std::vector<std::string> Names(const char* channels, const char* lanes) const {
    if (flat) return {"i", "j", "n", channels, "tile", lanes};
    return {"i", "j", "n", channels, "ty", "tx", lanes};
  }
  /// Of tile (ty, tx) the indices in such a tensor.
  void PushTile(const PrimExpr& ty, const PrimExpr& tx, Array<PrimExpr>* index) const {
    if (flat) return index->push_back(ty * tiles_x + tx);
    index->push_back(ty);
    index->push_back(tx);
  }
};

/// The input with `pad` around, of full tiles: (N, CB, rows, columns, ib).
Tensor PaddedInput(const Tensor& data, const WinogradSizes& s, const PrimExpr& pad) {
  Array<PrimExpr> shape = data->shape;
  PrimExpr height = shape[2], width = shape[3];
  shape.Set(2, s.tiles_y * s.step + (s.a - s.step));
  shape.Set(3, s.tiles_x * s.step + (s.a - s.step));
  return te::Compute(shape,
                     [&](const Array<te::Var>& i) {
                       PrimExpr h = PrimExpr(i[2]) - s.pad_top, w = PrimExpr(i[3]) - s.pad_left;
                       PrimExpr inside =
                           PrimExpr(i[2]) >= s.pad_top && h < height && PrimExpr(i[3]) >= s.pad_left && w < width;
                       return tir::if_then_else(inside, data(Array<PrimExpr>{i[0], i[1], h, w, i[4]}), pad);
                     },
                     "winograd_pad", "winograd_pad", StageAttrs(kWinogradConv, "pad"), {"n", "cb", "h", "w", "ci"});
}

/// The transform of the columns of each tile: (N, CB, tiles, points, inputs, ib).
Tensor TransformRows(const WinogradSizes& s, const Tensor& padded) {
  return te::Compute(
      {padded->shape[0], padded->shape[1], s.tiles_y, s.tiles_x, s.a, s.a, padded->shape[4]},
      [&](const Array<te::Var>& i) {
        std::vector<PrimExpr> d;
        for (int64_t y = 0; y < s.a; ++y) {
          d.push_back(padded(Array<PrimExpr>{i[0], i[1], i[2] * s.step + y, i[3] * s.step + i[5], i[6]}));
        }
        return ChooseUnrolled(i[4], InputTransform(s.a, d));
      },
      "winograd_rows", "winograd_rows", StageAttrs(kWinogradConv, "rows"), {"n", "cb", "ty", "tx", "i", "x", "ci"});
}

/// That of their rows, points first.
Tensor TransformInput(const WinogradSizes& s, const Tensor& rows) {
  return te::Compute(
      s.Points(rows->shape[0], rows->shape[1], rows->shape[6]),
      [&](const Array<te::Var>& i) {
        const PrimExpr ty = s.flat ? tir::floordiv(i[4], s.tiles_x) : PrimExpr(i[4]);
        const PrimExpr tx = s.flat ? tir::floormod(i[4], s.tiles_x) : PrimExpr(i[5]);
        std::vector<PrimExpr> d;
        for (int64_t x = 0; x < s.a; ++x) {
          d.push_back(rows(Array<PrimExpr>{i[2], i[3], ty, tx, i[0], x, i[i.size() - 1]}));
        }
        return ChooseUnrolled(i[1], InputTransform(s.a, d));
      },
      "winograd_input", "winograd_input", StageAttrs(kWinogradConv, "input"), s.Names("cb", "ci"));
}

/// For each point the product of tiles and channels with the kernel's.
Tensor MultiplyPoints(const WinogradSizes& s, const Tensor& input, const Tensor& kernel, const TensorTypeNode* type,
                      const Problem& problem, const WinogradElements& elements) {
  te::IterVar cb = te::ReduceAxis(tir::Range(kernel->shape[3]), "ic"),
              ci = te::ReduceAxis(tir::Range(kernel->shape[4]), "ici");
  return te::Compute(
      s.Points(type->shape[0], type->shape[1], type->shape[4]),
      [&](const Array<te::Var>& i) -> PrimExpr {
        const PrimExpr lane = i[i.size() - 1];
        auto channel = [&](const PrimExpr& c) {
          Array<PrimExpr> at{i[0], i[1], i[2], cb->var, i[4]};
          if (!s.flat) at.push_back(i[5]);
          at.push_back(c);
          return input(at);
        };
        const PrimExpr weight = kernel(Array<PrimExpr>{i[0], i[1], i[3], cb->var, ci->var, lane});
        return te::Sum(elements.term(channel, ci->var, weight), {cb, ci});
      },
      "winograd_product", "winograd_product", AnchorAttrs(kWinogradConv, "product", problem), s.Names("oc", "oci"));
}

/// The outputs of each tile: (N, OC/ob, tiles, m, m, ob).
Tensor TransformProduct(const WinogradSizes& s, const Tensor& product, const TensorTypeNode* type,
                        const WinogradElements& elements) {
  const PrimExpr m(s.m), side(s.a);
  Tensor columns = te::Compute({type->shape[0], type->shape[1], s.tiles_y, s.tiles_x, m, side, type->shape[4]},
                               [&](const Array<te::Var>& i) {
                                 std::vector<PrimExpr> v;
                                 for (int64_t y = 0; y < s.a; ++y) {
                                   Array<PrimExpr> at{y, i[5], i[0], i[1]};
                                   s.PushTile(i[2], i[3], &at);
                                   at.push_back(i[6]);
                                   v.push_back(product(at));
                                 }
                                 return ChooseUnrolled(i[4], elements.outputs(s.a, v));
                               },
                               "winograd_columns", "winograd_columns", StageAttrs(kWinogradConv, "columns"),
                               {"n", "oc", "ty", "tx", "y", "j", "oci"});
  return te::Compute({type->shape[0], type->shape[1], s.tiles_y, s.tiles_x, m, m, type->shape[4]},
                     [&](const Array<te::Var>& i) {
                       std::vector<PrimExpr> v;
                       for (int64_t x = 0; x < s.a; ++x) {
                         v.push_back(columns(Array<PrimExpr>{i[0], i[1], i[2], i[3], i[4], x, i[6]}));
                       }
                       return elements.finish(ChooseUnrolled(i[5], elements.outputs(s.a, v)), i[4], i[5]);
                     },
                     "winograd_tile", "winograd_tile", StageAttrs(kWinogradConv, "tile"),
                     {"n", "oc", "ty", "tx", "y", "x", "oci"});
}

}  // namespace

Array<Tensor> WinogradSums(const Conv2DAttrs* attrs, const Tensor& data, const Tensor& kernel,
                           const TensorTypeNode* type, const Problem& problem, const WinogradElements& elements) {
  const WinogradSizes s(attrs, kernel, type);
  const Tensor input = TransformInput(s, TransformRows(s, PaddedInput(data, s, elements.pad)));
  const Tensor tile = TransformProduct(s, MultiplyPoints(s, input, kernel, type, problem, elements), type, elements);
  const PrimExpr m(s.m);
  return {te::Compute(type->shape,
                      [&](const Array<te::Var>& i) {
                        return tile(Array<PrimExpr>{i[0], i[1], tir::floordiv(i[2], m), tir::floordiv(i[3], m),
                                                    tir::floormod(i[2], m), tir::floormod(i[3], m), i[4]});
                      },
                      "winograd_output", "injective,winograd_output", {}, {"n", "oc", "oh", "ow", "oci"})};
}

Problem WinogradLoopsProblem(const Conv2DAttrs* attrs, const Tensor& data, const Tensor& kernel,
                             const TensorTypeNode* type) {
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    SetBlockedSizes(attrs, data->shape, type->shape, &p);
    p.kh = p.kw = kTaps;
    p.winograd_side = DimValue(kernel->shape[0]);
    p.ic = DimValue(kernel->shape[3]) * DimValue(kernel->shape[4]);
  });
}

std::string WhyNotWinogradWindow(const ConvProblemNode& p) {
  if (p.kh != kTaps || p.kw != kTaps) return StrCat("the kernel is ", p.kh, " x ", p.kw, ", not 3 x 3");
  if (p.stride_h != p.stride_w || p.stride_h > 2) return "strides are neither 1 nor 2";
  if (p.dilation_h != 1 || p.dilation_w != 1) return "the kernel is dilated";
  if (p.groups != 1) return StrCat(p.groups, " groups");
  return "";
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
              attrs->strides == std::vector<int64_t>(2, stride) && context.Equal(kernel->shape[3], data->shape[1]) &&
              context.Equal(kernel->shape[4] * per_part, data->shape[4]);
  if (!fits) {
    throw ShapeError(
        StrCat("a transformed weight is (a, a, OC/ob, IC/ib, ib, ob) with a = 4 or 6, or 5 for stride 2, this is ",
               ShapeText(kernel->shape), " for data ", ShapeText(data->shape)));
  }
  std::vector<int64_t> pads = NormalizePadding(attrs->padding, 2);
  for (size_t i = 0; i < 2; ++i) RequireWindow(context, data->shape[2 + i], pads[i] + pads[2 + i], 3);
  return TensorType({data->shape[0], kernel->shape[2], WindowDim(data->shape[2], pads[0] + pads[2], 3, stride),
                     WindowDim(data->shape[3], pads[1] + pads[3], 3, stride), kernel->shape[5]},
                    sum);
}

double WinogradMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * 9 * DimOf(arguments[0], 1) * DimOf(arguments[0], 4);
}

}  // namespace treadle::ops::cpu
