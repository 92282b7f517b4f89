// SPDX-License-Identifier: Apache-2.0
// Values that operators compute, against plain loops and known results.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/op_test_util.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/attrs/image.h"

namespace treadle::ops {
namespace {

using testing::Test;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> RunFloats(const std::string& name, const std::vector<NDArray>& inputs, Attrs attrs = Attrs()) {
  return ToVector<float>(RunOp(name, inputs, attrs)[0]);
}
std::vector<int64_t> RunLongs(const std::string& name, const std::vector<NDArray>& inputs, Attrs attrs = Attrs()) {
  return ToVector<int64_t>(RunOp(name, inputs, attrs)[0]);
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& expected, float tolerance = 1e-5f) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << "element " << i << " is " << got[i];
    } else if (got[i] != expected[i]) {
      EXPECT_NEAR(got[i], expected[i], tolerance) << "element " << i;
    }
  }
}

TEST(Compute, SignKeepsNaN) { ExpectNear(RunFloats("sign", {Floats({4}, {-2, 0, 3, kNaN})}), {-1, 0, 1, kNaN}); }

TEST(Compute, RoundTakesHalvesToEven) {
  ExpectNear(RunFloats("round", {Floats({5}, {0.5f, 1.5f, 2.5f, -0.5f, -1.5f})}), {0, 2, 2, 0, -2});
}

TEST(Compute, MaximumKeepsNaN) {
  ExpectNear(RunFloats("maximum", {Floats({3}, {1, kNaN, 2}), Floats({3}, {kNaN, 1, 3})}), {kNaN, kNaN, 3});
}

TEST(Compute, ReluKeepsNaN) { ExpectNear(RunFloats("nn.relu", {Floats({3}, {-1, 2, kNaN})}), {0, 2, kNaN}); }

TEST(Compute, BroadcastsBothWays) {
  ExpectNear(RunFloats("subtract", {Floats({2, 1}, {10, 20}), Floats({3}, {1, 2, 3})}), {9, 8, 7, 19, 18, 17});
}

TEST(Compute, IntegerDivisionIsSafe) {
  EXPECT_EQ(RunLongs("divide", {Longs({4}, {7, -7, 5, INT64_MIN}), Longs({4}, {2, 2, 0, -1})})[1], -3);
  EXPECT_EQ(RunLongs("floor_mod", {Longs({3}, {7, -7, 5}), Longs({3}, {3, 3, 0})}), (std::vector<int64_t>{1, 2, 0}));
}

TEST(Compute, FloatModuloHasTheSignOfTheDivisor) {
  ExpectNear(RunFloats("floor_mod", {Floats({3}, {5.5f, -5.5f, 5.5f}), Floats({3}, {2, 2, -2})}), {1.5f, 0.5f, -0.5f});
}

TEST(Compute, ShiftsPastTheWidthGiveZero) {
  EXPECT_EQ(RunLongs("left_shift", {Longs({3}, {1, 1, 1}), Longs({3}, {4, 64, 63})}),
            (std::vector<int64_t>{16, 0, INT64_MIN}));
}

TEST(Compute, ClipSaturatesBoundsOfIntegers) {
  NDArray x = NDArray::FromVector(std::vector<uint8_t>{0, 10, 255}, {3}, DataType::UInt(8));
  Attrs attrs = MakeAttrs<ClipAttrs>([](auto& a) {
    a.a_min = -5;
    a.a_max = 1e9;
  });
  EXPECT_EQ(ToVector<uint8_t>(RunOp("clip", {x}, attrs)[0]), (std::vector<uint8_t>{0, 10, 255}));
}

TEST(Compute, WhereBroadcasts) {
  NDArray c = NDArray::FromVector(std::vector<uint8_t>{1, 0}, {2, 1}, DataType::Bool());
  ExpectNear(RunFloats("where", {c, Floats({2}, {1, 2}), Floats({1}, {9})}), {1, 2, 9, 9});
}

// ---- convolution ----

struct ConvCase {
  int64_t n, ic, h, w, oc, kh, kw, stride, dilation, groups;
  std::vector<int64_t> pad;  ///< top, left, bottom, right
};

/// Convolution by its definition.
std::vector<float> NaiveConv(const ConvCase& c, const NDArray& x, const NDArray& w) {
  int64_t oh = (c.h + c.pad[0] + c.pad[2] - (c.kh - 1) * c.dilation - 1) / c.stride + 1;
  int64_t ow = (c.w + c.pad[1] + c.pad[3] - (c.kw - 1) * c.dilation - 1) / c.stride + 1;
  int64_t icg = c.ic / c.groups, ocg = c.oc / c.groups;
  std::vector<float> out;
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t o = 0; o < c.oc; ++o)
      for (int64_t y = 0; y < oh; ++y)
        for (int64_t z = 0; z < ow; ++z) {
          double sum = 0;
          for (int64_t i = 0; i < icg; ++i)
            for (int64_t ky = 0; ky < c.kh; ++ky)
              for (int64_t kx = 0; kx < c.kw; ++kx) {
                int64_t iy = y * c.stride + ky * c.dilation - c.pad[0];
                int64_t ix = z * c.stride + kx * c.dilation - c.pad[1];
                if (iy < 0 || iy >= c.h || ix < 0 || ix >= c.w) continue;
                sum += x.Data<float>()[((n * c.ic + o / ocg * icg + i) * c.h + iy) * c.w + ix] *
                       w.Data<float>()[((o * icg + i) * c.kh + ky) * c.kw + kx];
              }
          out.push_back(static_cast<float>(sum));
        }
  return out;
}

class ConvTest : public testing::TestWithParam<ConvCase> {};

TEST_P(ConvTest, AgreesWithTheDefinition) {
  const ConvCase& c = GetParam();
  NDArray x = RandomFloats({c.n, c.ic, c.h, c.w}, 1), w = RandomFloats({c.oc, c.ic / c.groups, c.kh, c.kw}, 2);
  Attrs attrs = MakeAttrs<Conv2DAttrs>([&](auto& a) {
    a.strides = {c.stride, c.stride};
    a.dilation = {c.dilation, c.dilation};
    a.padding = c.pad;
    a.groups = static_cast<int>(c.groups);
  });
  ExpectNear(RunFloats("nn.conv2d", {x, w}, attrs), NaiveConv(c, x, w));
}

INSTANTIATE_TEST_SUITE_P(Conv2D, ConvTest,
                         testing::Values(ConvCase{2, 3, 7, 8, 4, 3, 3, 1, 1, 1, {1, 1, 1, 1}},
                                         ConvCase{1, 4, 9, 9, 6, 3, 2, 2, 1, 2, {0, 1, 2, 0}},
                                         ConvCase{1, 4, 9, 9, 4, 3, 3, 1, 2, 4, {2, 2, 2, 2}},
                                         ConvCase{1, 4, 5, 5, 8, 3, 3, 1, 1, 4, {1, 1, 1, 1}},
                                         ConvCase{1, 5, 4, 4, 3, 1, 1, 1, 1, 1, {0, 0, 0, 0}}));

TEST(Compute, ConvInNHWC) {
  ConvCase c{1, 2, 4, 5, 3, 3, 3, 1, 1, 1, {0, 0, 0, 0}};
  NDArray x = RandomFloats({1, 2, 4, 5}, 1), w = RandomFloats({3, 2, 3, 3}, 2);
  auto transpose = [](const NDArray& a, std::vector<int64_t> axes) {
    return RunOp("transpose", {a}, MakeAttrs<TransposeAttrs>([&](auto& t) { t.axes = axes; }))[0];
  };
  NDArray y =
      RunOp("nn.conv2d", {transpose(x, {0, 2, 3, 1}), transpose(w, {2, 3, 1, 0})}, MakeAttrs<Conv2DAttrs>([](auto& a) {
              a.data_layout = "NHWC";
              a.kernel_layout = "HWIO";
            }))[0];
  ExpectNear(ToVector<float>(transpose(y, {0, 3, 1, 2})), NaiveConv(c, x, w));
}

/// Transposed convolution by scattering each input element.
std::vector<float> NaiveConvTranspose(const NDArray& x, const NDArray& w, int64_t stride, int64_t dilation,
                                      int64_t groups, const std::vector<int64_t>& pad, int64_t output_padding) {
  int64_t ic = x.shape()[1], h = x.shape()[2], wd = x.shape()[3];
  int64_t ocg = w.shape()[1], k = w.shape()[2], icg = ic / groups;
  int64_t oh = (h - 1) * stride + (k - 1) * dilation + 1 - pad[0] - pad[2] + output_padding;
  int64_t ow = (wd - 1) * stride + (k - 1) * dilation + 1 - pad[1] - pad[3] + output_padding;
  std::vector<float> out(static_cast<size_t>(ocg * groups * oh * ow), 0);
  for (int64_t i = 0; i < ic; ++i)
    for (int64_t y = 0; y < h; ++y)
      for (int64_t z = 0; z < wd; ++z)
        for (int64_t o = 0; o < ocg; ++o)
          for (int64_t ky = 0; ky < k; ++ky)
            for (int64_t kx = 0; kx < k; ++kx) {
              int64_t oy = y * stride + ky * dilation - pad[0], ox = z * stride + kx * dilation - pad[1];
              if (oy < 0 || oy >= oh || ox < 0 || ox >= ow) continue;
              out[static_cast<size_t>(((i / icg * ocg + o) * oh + oy) * ow + ox)] +=
                  x.Data<float>()[(i * h + y) * wd + z] * w.Data<float>()[((i * ocg + o) * k + ky) * k + kx];
            }
  return out;
}

struct TransposeCase {
  int64_t kernel, stride, dilation, groups, output_padding;
  std::vector<int64_t> pad;
};
class ConvTransposeTest : public testing::TestWithParam<TransposeCase> {};

TEST_P(ConvTransposeTest, AgreesWithTheDefinition) {
  const TransposeCase& c = GetParam();
  NDArray x = RandomFloats({1, 4, 5, 4}, 1), w = RandomFloats({4, 3, c.kernel, c.kernel}, 2);
  Attrs attrs = MakeAttrs<Conv2DTransposeAttrs>([&](auto& a) {
    a.strides = {c.stride, c.stride};
    a.dilation = {c.dilation, c.dilation};
    a.padding = c.pad;
    a.output_padding = {c.output_padding, c.output_padding};
    a.groups = static_cast<int>(c.groups);
  });
  ExpectNear(RunFloats("nn.conv2d_transpose", {x, w}, attrs),
             NaiveConvTranspose(x, w, c.stride, c.dilation, c.groups, c.pad, c.output_padding));
}

INSTANTIATE_TEST_SUITE_P(
    Conv2DTranspose, ConvTransposeTest,
    testing::Values(TransposeCase{3, 1, 1, 1, 0, {0, 0, 0, 0}}, TransposeCase{2, 2, 1, 1, 0, {0, 0, 0, 0}},
                    TransposeCase{3, 2, 1, 1, 1, {1, 1, 1, 1}}, TransposeCase{4, 3, 1, 2, 2, {0, 1, 2, 1}},
                    TransposeCase{3, 2, 2, 1, 0, {2, 2, 1, 1}}, TransposeCase{1, 2, 1, 1, 1, {0, 0, 0, 0}}));

// ---- pooling ----

TEST(Compute, MaxPoolIgnoresPadding) {
  Attrs attrs = MakeAttrs<MaxPool2DAttrs>([](auto& a) {
    a.pool_size = {2, 2};
    a.padding = {1, 1};
  });
  ExpectNear(RunFloats("nn.max_pool2d", {Floats({1, 1, 2, 2}, {-4, -3, -2, -1})}, attrs),
             {-4, -3, -3, -2, -1, -1, -2, -1, -1});
}

TEST(Compute, AvgPoolCountsWhatItIsToldTo) {
  NDArray x = Floats({1, 1, 2, 2}, {1, 2, 3, 4});
  auto attrs = [](bool include) {
    return MakeAttrs<AvgPool2DAttrs>([&](auto& a) {
      a.pool_size = {2, 2};
      a.strides = {2, 2};
      a.padding = {1, 1};
      a.count_include_pad = include;
    });
  };
  ExpectNear(RunFloats("nn.avg_pool2d", {x}, attrs(false)), {1, 2, 3, 4});
  ExpectNear(RunFloats("nn.avg_pool2d", {x}, attrs(true)), {0.25f, 0.5f, 0.75f, 1});
}

TEST(Compute, AvgPoolRoundedUpDividesByWhatIsThere) {
  Attrs attrs = MakeAttrs<AvgPool1DAttrs>([](auto& a) {
    a.pool_size = {3};
    a.strides = {2};
    a.ceil_mode = true;
    a.count_include_pad = true;
  });
  ExpectNear(RunFloats("nn.avg_pool1d", {Floats({1, 1, 4}, {1, 2, 3, 4})}, attrs), {2, 3.5f});
}

TEST(Compute, GlobalAndAdaptivePools) {
  NDArray x = Floats({1, 1, 1, 5}, {1, 2, 3, 4, 5});
  ExpectNear(RunFloats("nn.global_avg_pool2d", {x}), {3});
  ExpectNear(RunFloats("nn.global_max_pool2d", {x}), {5});
  Attrs attrs = MakeAttrs<AdaptivePool2DAttrs>([](auto& a) { a.output_size = {1, 3}; });
  ExpectNear(RunFloats("nn.adaptive_avg_pool2d", {x}, attrs), {1.5f, 3, 4.5f});
  ExpectNear(RunFloats("nn.adaptive_max_pool2d", {x}, attrs), {2, 4, 5});
}

// ---- matrices ----

TEST(Compute, MatrixProducts) {
  NDArray a = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  NDArray w = Floats({2, 3}, {1, 0, 1, 0, 1, 0});
  ExpectNear(RunFloats("nn.dense", {a, w}), {4, 2, 10, 5});
  ExpectNear(RunFloats("nn.matmul", {a, w}, MakeAttrs<MatmulAttrs>([](auto& m) { m.transpose_a = true; })),
             {1, 4, 1, 2, 5, 2, 3, 6, 3});
}

TEST(Compute, BatchMatmulBroadcasts) {
  NDArray a = Floats({2, 1, 1, 2}, {1, 2, 3, 4});
  NDArray b = Floats({2, 2, 1}, {1, 1, 1, -1});
  Attrs attrs = MakeAttrs<BatchMatmulAttrs>([](auto& m) { m.transpose_b = false; });
  ExpectNear(RunFloats("nn.batch_matmul", {a, b}, attrs), {3, -1, 7, -1});
}

// ---- normalisation and reduction ----

TEST(Compute, SoftmaxIsStable) {
  Attrs attrs = MakeAttrs<SoftmaxAttrs>([](auto& a) { a.axis = 0; });
  ExpectNear(RunFloats("nn.softmax", {Floats({2, 2}, {1000, 1, 1000, -kInf})}, attrs), {0.5f, 1, 0.5f, 0});
  ExpectNear(RunFloats("nn.log_softmax", {Floats({1, 2}, {1000, 0})}), {0, -1000});
}

TEST(Compute, LRN) {
  Attrs attrs = MakeAttrs<LRNAttrs>([](auto& a) {
    a.size = 3;
    a.alpha = 3;
    a.beta = 1;
    a.bias = 1;
  });
  ExpectNear(RunFloats("nn.lrn", {Floats({1, 3, 1, 1}, {1, 2, 3})}, attrs), {1.f / 6, 2.f / 15, 3.f / 14});
}

Attrs Axes(std::vector<int64_t> axis, bool keepdims = false) {
  return MakeAttrs<ReduceAttrs>([&](auto& a) {
    a.axis = axis;
    a.keepdims = keepdims;
  });
}

TEST(Compute, Reductions) {
  NDArray x = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectNear(RunFloats("sum", {x}), {21});
  ExpectNear(RunFloats("mean", {x}, Axes({0})), {2.5f, 3.5f, 4.5f});
  ExpectNear(RunFloats("prod", {x}, Axes({-1}, true)), {6, 120});
  ExpectNear(RunFloats("max", {x}, Axes({1})), {3, 6});
  ExpectNear(RunFloats("min", {Floats({2}, {kNaN, 1})}), {kNaN});
}

TEST(Compute, SumsAndProductsOfBoolAreBool) {
  const std::vector<uint8_t> values = {1, 0, 1, 1, 1, 1, 0, 0, 0};
  NDArray x = NDArray::FromVector<uint8_t>(values, {3, 3}, DataType::Bool());
  EXPECT_EQ(ToVector<uint8_t>(RunOp("sum", {x}, Axes({1}))[0]), (std::vector<uint8_t>{1, 1, 0}));
  EXPECT_EQ(ToVector<uint8_t>(RunOp("prod", {x}, Axes({1}))[0]), (std::vector<uint8_t>{0, 1, 0}));
  EXPECT_EQ(ToVector<uint8_t>(RunOp("sum", {x}, Axes({}))[0]), values);
  EXPECT_THROW(RunOp("mean", {x}, Axes({1})), Error);
}

TEST(Compute, ArithmeticOnBoolIsBool) {
  NDArray x = NDArray::FromVector<uint8_t>({1, 0, 1, 0}, {4}, DataType::Bool());
  NDArray y = NDArray::FromVector<uint8_t>({1, 1, 0, 0}, {4}, DataType::Bool());
  EXPECT_EQ(ToVector<uint8_t>(RunOp("add", {x, y})[0]), (std::vector<uint8_t>{1, 1, 1, 0}));
  EXPECT_EQ(ToVector<uint8_t>(RunOp("multiply", {x, y})[0]), (std::vector<uint8_t>{1, 0, 0, 0}));
  EXPECT_EQ(ToVector<uint8_t>(RunOp("subtract", {x, y})[0]), (std::vector<uint8_t>{0, 1, 1, 0}));
  EXPECT_EQ(ToVector<uint8_t>(RunOp("negative", {x})[0]), (std::vector<uint8_t>{1, 0, 1, 0}));
}

TEST(Compute, ArgmaxTakesTheFirstOrTheLast) {
  NDArray x = Floats({1, 4}, {1, 7, 7, -1});
  auto attrs = [](bool last) {
    return MakeAttrs<ArgReduceAttrs>([&](auto& a) {
      a.axis = std::vector<int64_t>{1};
      a.select_last_index = last;
    });
  };
  EXPECT_EQ(ToVector<int32_t>(RunOp("argmax", {x}, attrs(false))[0])[0], 1);
  EXPECT_EQ(ToVector<int32_t>(RunOp("argmax", {x}, attrs(true))[0])[0], 2);
  EXPECT_EQ(ToVector<int32_t>(RunOp("argmin", {x}, attrs(false))[0])[0], 3);
}

// ---- moving elements ----

TEST(Compute, ReshapeOfAnyShapes) {
  NDArray x = RandomFloats({2, 3, 4, 5});
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{2, 12, 5}, {6, 20}, {5, 4, 3, 2}, {120}}) {
    Attrs attrs = MakeAttrs<ReshapeAttrs>([&](auto& a) { a.newshape = IntArray(shape); });
    EXPECT_EQ(RunFloats("reshape", {x}, attrs), ToVector<float>(x));
  }
}

TEST(Compute, SlicesBackwards) {
  Attrs attrs = MakeAttrs<StridedSliceAttrs>([](auto& a) {
    a.begin = {-1};
    a.end = {-100};
    a.strides = {-2};
  });
  ExpectNear(RunFloats("strided_slice", {Floats({5}, {0, 1, 2, 3, 4})}, attrs), {4, 2, 0});
}

TEST(Compute, ConcatenateAndSplit) {
  NDArray x = Floats({2, 1}, {1, 2}), y = Floats({2, 2}, {3, 4, 5, 6});
  Attrs axis = MakeAttrs<ConcatenateAttrs>([](auto& a) { a.axis = 1; });
  NDArray joined = RunOp("concatenate", {x, y}, axis, true)[0];
  ExpectNear(ToVector<float>(joined), {1, 3, 4, 2, 5, 6});
  std::vector<NDArray> parts = RunOp("split", {joined}, MakeAttrs<SplitAttrs>([](auto& a) {
                                       a.indices_or_sections = IntArray({1});
                                       a.axis = 1;
                                     }));
  ExpectNear(ToVector<float>(parts[1]), {3, 4, 5, 6});
}

TEST(Compute, TakeNeverReadsOutside) {
  auto attrs = [](const char* mode) {
    return MakeAttrs<TakeAttrs>([&](auto& a) {
      a.axis = 0;
      a.mode = mode;
    });
  };
  NDArray x = Floats({3}, {10, 20, 30}), indices = Longs({4}, {-1, 5, 1, INT64_MIN});
  ExpectNear(RunFloats("take", {x, indices}, attrs("clip")), {10, 30, 20, 10});
  ExpectNear(RunFloats("take", {x, Longs({3}, {-1, 5, 1})}, attrs("wrap")), {30, 30, 20});
}

TEST(Compute, GatherCountsFromTheEnd) {
  ExpectNear(RunFloats("gather", {Floats({2, 2}, {1, 2, 3, 4}), Longs({2, 1}, {-1, 0})},
                       MakeAttrs<GatherAttrs>([](auto& a) { a.axis = 1; })),
             {2, 3});
  ExpectNear(RunFloats("gather_nd", {Floats({2, 2}, {1, 2, 3, 4}), Longs({2, 2}, {0, 1, 1, -2})}), {2, 3});
}

TEST(Compute, Pads) {
  NDArray x = Floats({4}, {1, 2, 3, 4});
  auto pad = [&](const char* mode, int64_t before, int64_t after) {
    return RunFloats("nn.pad", {x, Floats({}, {9})}, MakeAttrs<PadAttrs>([&](auto& a) {
                       a.pad_width = IntPairs({{before, after}});
                       a.pad_mode = mode;
                     }));
  };
  ExpectNear(pad("constant", 1, 2), {9, 1, 2, 3, 4, 9, 9});
  ExpectNear(pad("constant", -1, 1), {2, 3, 4, 9});
  ExpectNear(pad("edge", 2, 1), {1, 1, 1, 2, 3, 4, 4});
  ExpectNear(pad("reflect", 2, 1), {3, 2, 1, 2, 3, 4, 3});
  ExpectNear(pad("wrap", 1, 2), {4, 1, 2, 3, 4, 1, 2});
}

// ---- resizing: the values are those of the ONNX operator's documentation ----

std::vector<float> Resize(const NDArray& x, std::vector<int64_t> size, std::vector<double> scales, const char* method,
                          const char* mode, double alpha = -0.75) {
  return RunFloats("image.resize2d", {x}, MakeAttrs<Resize2DAttrs>([&](auto& a) {
                     a.size = IntArray(size);
                     a.scales = scales;
                     a.method = method;
                     a.coordinate_transformation_mode = mode;
                     a.cubic_alpha = alpha;
                   }));
}

TEST(Compute, ResizeNearestByWholeFactors) {
  ExpectNear(Resize(Floats({1, 1, 2, 2}, {1, 2, 3, 4}), {4, 6}, {2, 3}, "nearest_neighbor", "half_pixel"),
             {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4});
}

TEST(Compute, ResizeNearestDown) {
  ExpectNear(
      Resize(Floats({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), {1, 2}, {0.6, 0.6}, "nearest_neighbor", "half_pixel"),
      {1, 3});
}

TEST(Compute, ResizeLinear) {
  ExpectNear(Resize(Floats({1, 1, 2, 2}, {1, 2, 3, 4}), {4, 4}, {2, 2}, "linear", "half_pixel"),
             {1, 1.25f, 1.75f, 2, 1.5f, 1.75f, 2.25f, 2.5f, 2.5f, 2.75f, 3.25f, 3.5f, 3, 3.25f, 3.75f, 4});
  ExpectNear(Resize(Floats({1, 1, 2, 2}, {1, 2, 3, 4}), {4, 4}, {2, 2}, "linear", "align_corners"),
             {1, 1.33333333f, 1.66666667f, 2, 1.66666667f, 2, 2.33333333f, 2.66666667f, 2.33333333f, 2.66666667f, 3,
              3.33333333f, 3, 3.33333333f, 3.66666667f, 4});
}

TEST(Compute, ResizeCubic) {
  std::vector<float> x(16);
  for (size_t i = 0; i < 16; ++i) x[i] = static_cast<float>(i + 1);
  ExpectNear(Resize(Floats({1, 1, 4, 4}, x), {3, 3}, {0.8, 0.8}, "cubic", "half_pixel"),
             {1.47119141f, 2.78125f, 4.08251953f, 6.71142578f, 8.02148438f, 9.32275391f, 11.91650391f, 13.2265625f,
              14.52783203f},
             1e-4f);
}

TEST(Compute, ResizeAntialiased) {
  NDArray y =
      RunOp("image.resize2d", {Floats({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})}, MakeAttrs<Resize2DAttrs>([](auto& a) {
              a.size = IntArray({1, 2});
              a.scales = {0.6, 0.6};
              a.antialias = true;
            }))[0];
  ExpectNear(ToVector<float>(y), {2.875f, 4.5f});
}

// ---- sorting, scanning, scattering ----

TEST(Compute, SortIsStableAndPutsNaNLast) {
  NDArray x = Floats({7}, {3, kNaN, 1, 3, -kInf, 1, 2});
  EXPECT_EQ(ToVector<int32_t>(RunOp("argsort", {x})[0]), (std::vector<int32_t>{4, 2, 5, 6, 0, 3, 1}));
  Attrs descend = MakeAttrs<ArgsortAttrs>([](auto& a) { a.is_ascend = false; });
  EXPECT_EQ(ToVector<int32_t>(RunOp("argsort", {x}, descend)[0]), (std::vector<int32_t>{1, 0, 3, 6, 2, 5, 4}));
}

TEST(Compute, SortsAnyLength) {
  for (int64_t n : {1, 2, 3, 31, 32, 33, 1000}) {
    NDArray x = RandomFloats({2, n, 3}, static_cast<unsigned>(n));
    NDArray y = RunOp("sort", {x}, MakeAttrs<ArgsortAttrs>([](auto& a) { a.axis = 1; }))[0];
    for (int64_t row = 0; row < 6; ++row) {
      std::vector<float> expected, got;
      for (int64_t i = 0; i < n; ++i) {
        expected.push_back(x.Data<float>()[(row / 3 * n + i) * 3 + row % 3]);
        got.push_back(y.Data<float>()[(row / 3 * n + i) * 3 + row % 3]);
      }
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(got, expected);
    }
  }
}

TEST(Compute, TopK) {
  Attrs attrs = MakeAttrs<TopKAttrs>([](auto& a) {
    a.k = 2;
    a.dtype = DataType::Int(64);
  });
  std::vector<NDArray> y = RunOp("topk", {Floats({2, 4}, {1, 4, 4, 2, 8, 7, 6, 5})}, attrs);
  ExpectNear(ToVector<float>(y[0]), {4, 4, 8, 7});
  EXPECT_EQ(ToVector<int64_t>(y[1]), (std::vector<int64_t>{1, 2, 0, 1}));
}

TEST(Compute, CumsumExclusiveReverse) {
  auto run = [](bool exclusive, bool reverse) {
    return RunFloats("cumsum", {Floats({2, 3}, {1, 2, 3, 4, 5, 6})}, MakeAttrs<ScanopAttrs>([&](auto& a) {
                       a.axis = 1;
                       a.exclusive = exclusive;
                       a.reverse = reverse;
                     }));
  };
  ExpectNear(run(false, false), {1, 3, 6, 4, 9, 15});
  ExpectNear(run(true, false), {0, 1, 3, 0, 4, 9});
  ExpectNear(run(true, true), {5, 3, 0, 11, 6, 0});
}

TEST(Compute, ScatterElements) {
  Attrs attrs = MakeAttrs<ScatterAttrs>([](auto& a) {
    a.axis = 1;
    a.reduction = "add";
  });
  ExpectNear(
      RunFloats("scatter", {Floats({1, 3}, {1, 2, 3}), Longs({1, 3}, {1, -2, 0}), Floats({1, 3}, {10, 20, 30})}, attrs),
      {31, 32, 3});
}

TEST(Compute, ScatterRefusesIndicesOutOfRange) {
  EXPECT_ANY_THROW(RunOp("scatter", {Floats({2}, {1, 2}), Longs({1}, {2}), Floats({1}, {9})}));
}

TEST(Compute, ScatterND) {
  ExpectNear(RunFloats("scatter_nd",
                       {Floats({3, 2}, {1, 2, 3, 4, 5, 6}), Longs({1, 2}, {2, 0}), Floats({2, 2}, {7, 8, 9, 10})}),
             {9, 10, 3, 4, 7, 8});
}

}  // namespace
}  // namespace treadle::ops
