// SPDX-License-Identifier: Apache-2.0
#include "ops/winograd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "ops/families.h"
#include "ops/infer.h"
#include "ops/macs.h"
#include "ops/te_util.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

using runtime::NDArray;
using te::Tensor;

// ---- The transforms, of one dimension; T is a number or an expression. The number of points, a, tells which form: 4
// and 6 of stride 1; 5 of stride 2, where even inputs meet the outer weights by F(2, 2) and odd inputs the one between
// ----

constexpr int64_t kStridedSide = 5;

int64_t StrideOf(int64_t a) { return a == kStridedSide ? 2 : 1; }
int64_t TileOf(int64_t a) { return a == kStridedSide ? 2 : a - 2; }

template <typename T>
std::vector<T> InputTransform(int64_t a, const std::vector<T>& d) {
  auto times = [](float c, const T& x) { return T(c) * x; };
  if (a == kStridedSide) return {d[0] - d[2], d[2], d[4] - d[2], d[1], d[3]};
  if (a == 4) return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]};
  T even = d[4] - times(4, d[2]), odd = d[3] - times(4, d[1]);
  T even2 = d[4] - d[2], odd2 = times(2, d[3] - d[1]);
  return {times(4, d[0]) - times(5, d[2]) + d[4], even + odd, even - odd, even2 + odd2, even2 - odd2,
          times(4, d[1]) - times(5, d[3]) + d[5]};
}

template <typename T>
std::vector<T> OutputTransform(int64_t a, const std::vector<T>& v) {
  auto times = [](float c, const T& x) { return x * T(c); };
  if (a == kStridedSide) return {v[0] + v[1] + v[3], v[1] + v[2] + v[4]};
  if (a == 4) return {v[0] + v[1] + v[2], v[1] - v[2] - v[3]};
  T sum = v[1] + v[2], difference = v[1] - v[2], sum2 = v[3] + v[4], difference2 = v[3] - v[4];
  return {v[0] + sum + sum2, difference + times(2, difference2), sum + times(4, sum2),
          difference + times(8, difference2) + v[5]};
}

/// Of three weights; the first `a` results count.
std::array<double, 6> WeightTransform(int64_t a, double g0, double g1, double g2) {
  if (a == kStridedSide) return {g0, g0 + g2, g2, g1, g1, 0};
  if (a == 4) return {g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2, 0, 0};
  double low = (g0 + g2) / 6, high = g0 / 24 + g2 / 6;
  return {g0 / 4, -low - g1 / 6, -low + g1 / 6, high + g1 / 12, high - g1 / 12, g2};
}

/// Transforms columns, then rows of a square of side `from`.
template <typename T, typename F>
std::vector<T> Both(int64_t from, const std::vector<T>& square, F transform) {
  std::vector<std::vector<T>> columns;
  for (int64_t x = 0; x < from; ++x) {
    std::vector<T> column;
    for (int64_t y = 0; y < from; ++y) column.push_back(square[static_cast<size_t>(y * from + x)]);
    columns.push_back(transform(column));
  }
  std::vector<T> result;
  for (size_t i = 0; i < columns[0].size(); ++i) {
    std::vector<T> row;
    for (const auto& column : columns) row.push_back(column[i]);
    for (const T& value : transform(row)) result.push_back(value);
  }
  return result;
}

/// Element (i, j) of the transformed weight goes to to[(i * a + j) * stride].
void TransformWeight(int64_t a, const float* g, float* to, int64_t stride) {
  std::array<std::array<double, 6>, 3> columns;
  for (size_t x = 0; x < 3; ++x) columns[x] = WeightTransform(a, g[x], g[3 + x], g[6 + x]);
  for (int64_t i = 0; i < a; ++i) {
    auto row = static_cast<size_t>(i);
    std::array<double, 6> values = WeightTransform(a, columns[0][row], columns[1][row], columns[2][row]);
    for (int64_t j = 0; j < a; ++j) to[(i * a + j) * stride] = static_cast<float>(values[static_cast<size_t>(j)]);
  }
}

// ---- Tensor expressions ----

/// values[index] for a variable that schedules unroll.
PrimExpr Choose(const PrimExpr& index, const std::vector<PrimExpr>& values) {
  PrimExpr result = values.back();
  for (size_t i = values.size() - 1; i-- > 0;) {
    result = tir::Select(tir::equal(index, PrimExpr(static_cast<int64_t>(i))), values[i], result);
  }
  return result;
}

struct WinogradSizes {
  int64_t m, a, step, pad_top, pad_left;  ///< tiles of m x m outputs, from a x a inputs that start `step` apart
  PrimExpr tiles_y, tiles_x;
};

/// The input with zeros around, of full tiles: (N, CB, rows, columns, ib).
Tensor PaddedInput(const Tensor& data, const WinogradSizes& s) {
  Array<PrimExpr> shape = data->shape;
  PrimExpr height = shape[2], width = shape[3];
  shape.Set(2, s.tiles_y * s.step + (s.a - s.step));
  shape.Set(3, s.tiles_x * s.step + (s.a - s.step));
  return te::Compute(
      shape,
      [&](const Array<te::Var>& i) {
        PrimExpr h = PrimExpr(i[2]) - s.pad_top, w = PrimExpr(i[3]) - s.pad_left;
        PrimExpr inside = PrimExpr(i[2]) >= s.pad_top && h < height && PrimExpr(i[3]) >= s.pad_left && w < width;
        return tir::if_then_else(inside, data(Array<PrimExpr>{i[0], i[1], h, w, i[4]}), tir::make_zero(data->dtype));
      },
      "winograd_pad", "winograd_pad", {}, {"n", "cb", "h", "w", "ci"});
}

/// data: (N, IC/ib, H, W, ib), kernel: see WinogradWeight. Result: (N, OC/ob, OH, OW, ob).
Array<Tensor> WinogradCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* type = out_type.as<TensorTypeNode>();
  const Tensor &data = inputs[0], &kernel = inputs[1];
  std::vector<int64_t> pads = NormalizePadding(attrs.as<Conv2DAttrs>()->padding, 2);
  WinogradSizes s;
  s.a = DimValue(kernel->shape[0]);
  s.m = TileOf(s.a);
  s.step = s.m * StrideOf(s.a);
  s.pad_top = pads[0];
  s.pad_left = pads[1];
  s.tiles_y = tir::ceildiv(type->shape[2], s.m);
  s.tiles_x = tir::ceildiv(type->shape[3], s.m);
  Tensor padded = PaddedInput(data, s);
  PrimExpr side(s.a), batch = data->shape[0], in_blocks = data->shape[1], out_blocks = type->shape[1];
  Tensor rows =
      te::Compute({batch, in_blocks, s.tiles_y, s.tiles_x, side, side, data->shape[4]},
                  [&](const Array<te::Var>& i) {
                    std::vector<PrimExpr> d;
                    for (int64_t y = 0; y < s.a; ++y) {
                      d.push_back(padded(Array<PrimExpr>{i[0], i[1], i[2] * s.step + y, i[3] * s.step + i[5], i[6]}));
                    }
                    return Choose(i[4], InputTransform(s.a, d));
                  },
                  "winograd_rows", "winograd_rows", {}, {"n", "cb", "ty", "tx", "i", "x", "ci"});
  Tensor input = te::Compute({side, side, batch, in_blocks, s.tiles_y * s.tiles_x, data->shape[4]},
                             [&](const Array<te::Var>& i) {
                               PrimExpr ty = tir::floordiv(i[4], s.tiles_x), tx = tir::floormod(i[4], s.tiles_x);
                               std::vector<PrimExpr> d;
                               for (int64_t x = 0; x < s.a; ++x)
                                 d.push_back(rows(Array<PrimExpr>{i[2], i[3], ty, tx, i[0], x, i[5]}));
                               return Choose(i[1], InputTransform(s.a, d));
                             },
                             "winograd_input", "winograd_input", {}, {"i", "j", "n", "cb", "tile", "ci"});
  te::IterVar cb = te::ReduceAxis(tir::Range(in_blocks), "ic"), ci = te::ReduceAxis(tir::Range(data->shape[4]), "ici");
  Tensor product = te::Compute({side, side, batch, out_blocks, s.tiles_y * s.tiles_x, type->shape[4]},
                               [&](const Array<te::Var>& i) {
                                 return te::Sum(input(Array<PrimExpr>{i[0], i[1], i[2], cb->var, i[4], ci->var}) *
                                                    kernel(Array<PrimExpr>{i[0], i[1], i[3], cb->var, ci->var, i[5]}),
                                                {cb, ci});
                               },
                               "winograd_product", "winograd_product", {}, {"i", "j", "n", "oc", "tile", "oci"});
  PrimExpr m(s.m);
  Tensor columns = te::Compute({batch, out_blocks, s.tiles_y, s.tiles_x, m, side, type->shape[4]},
                               [&](const Array<te::Var>& i) {
                                 std::vector<PrimExpr> v;
                                 PrimExpr position = PrimExpr(i[2]) * s.tiles_x + i[3];
                                 for (int64_t y = 0; y < s.a; ++y)
                                   v.push_back(product(Array<PrimExpr>{y, i[5], i[0], i[1], position, i[6]}));
                                 return Choose(i[4], OutputTransform(s.a, v));
                               },
                               "winograd_columns", "winograd_columns", {}, {"n", "oc", "ty", "tx", "y", "j", "oci"});
  Tensor tile = te::Compute({batch, out_blocks, s.tiles_y, s.tiles_x, m, m, type->shape[4]},
                            [&](const Array<te::Var>& i) {
                              std::vector<PrimExpr> v;
                              for (int64_t x = 0; x < s.a; ++x)
                                v.push_back(columns(Array<PrimExpr>{i[0], i[1], i[2], i[3], i[4], x, i[6]}));
                              return Choose(i[5], OutputTransform(s.a, v));
                            },
                            "winograd_tile", "winograd_tile", {}, {"n", "oc", "ty", "tx", "y", "x", "oci"});
  return {te::Compute(type->shape,
                      [&](const Array<te::Var>& i) {
                        return tile(Array<PrimExpr>{i[0], i[1], tir::floordiv(i[2], m), tir::floordiv(i[3], m),
                                                    tir::floormod(i[2], m), tir::floormod(i[3], m), i[4]});
                      },
                      "winograd_output", "injective,winograd_output", {}, {"n", "oc", "oh", "ow", "oci"})};
}

Type WinogradInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* kernel = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<Conv2DAttrs>();
  CheckRank(data, 5, "data");
  CheckRank(kernel, 6, "weight");
  CheckSameDType(data, kernel);
  int64_t side = DimValue(kernel->shape[0]);
  const int64_t stride = StrideOf(side);
  bool fits = (side == 4 || side == 6 || side == kStridedSide) && DimValue(kernel->shape[1]) == side &&
              attrs->strides == std::vector<int64_t>(2, stride) && context.Equal(kernel->shape[3], data->shape[1]) &&
              context.Equal(kernel->shape[4], data->shape[4]);
  if (!fits) {
    throw ShapeError(
        StrCat("a transformed weight is (a, a, OC/ob, IC/ib, ib, ob) with a = 4 or 6, or 5 for stride 2, this is ",
               ShapeText(kernel->shape), " for data ", ShapeText(data->shape)));
  }
  std::vector<int64_t> pads = NormalizePadding(attrs->padding, 2);
  return TensorType({data->shape[0], kernel->shape[2], WindowDim(data->shape[2], pads[0] + pads[2], 3, stride),
                     WindowDim(data->shape[3], pads[1] + pads[3], 3, stride), kernel->shape[5]},
                    data->dtype);
}

double WinogradMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * 9 * DimOf(arguments[0], 1) * DimOf(arguments[0], 4);
}

}  // namespace

std::vector<int64_t> WinogradSides(const WinogradShape& s) {
  if (s.in_channels < 16 || s.out_channels < 16 || s.stride < 1 || s.stride > 2) return {};
  // Cost in multiply-adds of a vector's element. Weights beyond the cache stream from memory.
  constexpr double kWeightCost = 8, kInputCost = 3.5, kOutputCost = 2.5, kGain = 0.85;
  auto channels = static_cast<double>(s.in_channels) * static_cast<double>(s.out_channels);
  auto pixels = static_cast<double>(s.batch * s.out_height * s.out_width);
  auto weights = [&](double taps) { return taps * channels * kWeightCost; };
  double direct = 9 * pixels * channels + weights(9);
  std::vector<std::pair<double, int64_t>> found;
  for (int64_t a : s.stride == 1 ? std::vector<int64_t>{6, 4} : std::vector<int64_t>{kStridedSide}) {
    const int64_t m = TileOf(a);
    auto squares = static_cast<double>(a * a);
    auto tiles = static_cast<double>(s.batch * ((s.out_height + m - 1) / m) * ((s.out_width + m - 1) / m));
    double cost =
        squares * tiles * channels + weights(squares) +
        squares * tiles *
            (kInputCost * static_cast<double>(s.in_channels) + kOutputCost * static_cast<double>(s.out_channels));
    if (cost < kGain * direct) found.emplace_back(cost, a);
  }
  std::sort(found.begin(), found.end());
  std::vector<int64_t> result;
  for (const auto& [cost, a] : found) result.push_back(a);
  return result;
}

bool WinogradIsAccurate(const NDArray& weight, int64_t a) {
  constexpr int64_t kChannels = 4, kTiles = 4;
  const int64_t out_channels = weight.shape()[0], in_channels = weight.shape()[1], m = TileOf(a), stride = StrideOf(a);
  const float* w = weight.Data<float>();
  std::mt19937 random(17);
  // Activations are mostly outputs of ReLU or normalised; a mean unlike zero is the harder case.
  // Near enough to normal, and the same in every standard library, whose distributions differ: a sum of uniform
  // numbers.
  auto normal = [](std::mt19937& bits) {
    constexpr int kTerms = 12;  // whose variances of 1/12 add up to 1
    double sum = 0.5 - kTerms / 2.0;
    for (int i = 0; i < kTerms; ++i) sum += std::ldexp(static_cast<double>(bits()), -32);
    return static_cast<float>(sum);
  };
  double error = 0, plain_error = 0, low = HUGE_VAL, high = -HUGE_VAL;
  auto squares = static_cast<size_t>(a * a);
  for (int64_t tile = 0; tile < kTiles; ++tile) {
    std::vector<std::vector<float>> inputs, transformed;
    for (int64_t ic = 0; ic < in_channels; ++ic) {
      inputs.emplace_back();
      for (size_t i = 0; i < squares; ++i) inputs.back().push_back(normal(random));
      transformed.push_back(
          Both<float>(a, inputs.back(), [a](const std::vector<float>& d) { return InputTransform(a, d); }));
    }
    for (int64_t n = 0; n < std::min(kChannels, out_channels); ++n) {
      const float* kernel = w + n * (out_channels / std::min(kChannels, out_channels)) * in_channels * 9;
      std::vector<float> product(squares, 0);
      for (int64_t ic = 0; ic < in_channels; ++ic) {
        std::array<float, 36> u;
        TransformWeight(a, kernel + ic * 9, u.data(), 1);
        for (size_t i = 0; i < squares; ++i) {
          product[i] = std::fma(transformed[static_cast<size_t>(ic)][i], u[i], product[i]);
        }
      }
      auto result = Both<float>(a, product, [a](const std::vector<float>& v) { return OutputTransform(a, v); });
      for (int64_t at = 0; at < m * m; ++at) {
        double exact = 0;
        float plain = 0;
        for (int64_t ic = 0; ic < in_channels; ++ic) {
          for (int64_t k = 0; k < 9; ++k) {
            float x = inputs[static_cast<size_t>(ic)]
                            [static_cast<size_t>((at / m * stride + k / 3) * a + at % m * stride + k % 3)];
            exact += static_cast<double>(x) * static_cast<double>(kernel[ic * 9 + k]);
            plain = std::fma(x, kernel[ic * 9 + k], plain);
          }
        }
        error = std::max(error, std::abs(exact - static_cast<double>(result[static_cast<size_t>(at)])));
        plain_error = std::max(plain_error, std::abs(exact - static_cast<double>(plain)));
        low = std::min(low, exact);
        high = std::max(high, exact);
      }
    }
  }
  return error <= 4 * plain_error || error <= 1e-4 * (high - low);
}

NDArray WinogradWeight(const NDArray& weight, int64_t a, int64_t ib, int64_t ob) {
  const int64_t out_channels = weight.shape()[0], in_channels = weight.shape()[1];
  NDArray result = NDArray::Empty({a, a, out_channels / ob, in_channels / ib, ib, ob}, DataType::Float(32));
  const float* from = weight.Data<float>();
  auto* to = result.Data<float>();
  const int64_t plane = out_channels * in_channels;
  for (int64_t oc = 0; oc < out_channels; ++oc) {
    for (int64_t ic = 0; ic < in_channels; ++ic) {
      const float* g = from + (oc * in_channels + ic) * 9;
      float* at = to + (((oc / ob) * (in_channels / ib) + ic / ib) * ib + ic % ib) * ob + oc % ob;
      TransformWeight(a, g, at, plane);
    }
  }
  return result;
}

void RegisterWinogradOps() {
  OpRegistration("nn.contrib_conv2d_winograd_NCHWc")
      .Describe("Convolution of a 3 x 3 window on channel-blocked data, by Winograd's minimal filtering.")
      .Arguments(
          {{"data", "Tensor", "The input (N, IC/ib, H, W, ib)."},
           {"weight", "Tensor",
            "The transformed kernel (a, a, OC/ob, IC/ib, ib, ob); tiles are of a - 2; a = 5: of 2, with stride 2."}})
      .AttrsType<Conv2DAttrs>()
      .SupportLevel(10)
      .Relation(Rule<WinogradInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(WinogradMacs))
      .Set(kCompute, FTECompute(WinogradCompute));
}

}  // namespace treadle::ops
