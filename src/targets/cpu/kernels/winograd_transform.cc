// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/winograd_transform.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "targets/cpu/kernels/weight_forms.h"
#include "treadle/base/int_math.h"

namespace treadle::ops::cpu {

using runtime::NDArray;

namespace {

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

/// The same of `lanes` weights: element k of lane l is g[k * lanes + l], (i, j) goes to to[(i * a + j) * stride + l].
/// `columns`: room for 18 * lanes numbers.
void TransformLanes(int64_t a, int64_t lanes, const double* g, double* columns, float* to, int64_t stride) {
  for (int64_t x = 0; x < 3; ++x) {
    for (int64_t l = 0; l < lanes; ++l) {
      const auto values = WeightTransform(a, g[x * lanes + l], g[(3 + x) * lanes + l], g[(6 + x) * lanes + l]);
      for (int64_t i = 0; i < a; ++i) columns[(i * 3 + x) * lanes + l] = values[static_cast<size_t>(i)];
    }
  }
  for (int64_t i = 0; i < a; ++i) {
    const double* row = columns + i * 3 * lanes;
    for (int64_t l = 0; l < lanes; ++l) {
      const auto values = WeightTransform(a, row[l], row[lanes + l], row[2 * lanes + l]);
      for (int64_t j = 0; j < a; ++j) to[(i * a + j) * stride + l] = static_cast<float>(values[static_cast<size_t>(j)]);
    }
  }
}

}  // namespace

bool WinogradError::Within(treadle::transform::Accuracy accuracy) const {
  using treadle::transform::Accuracy;
  switch (accuracy) {
    case Accuracy::kStrict:
      return false;  // an infinity, or a sum beyond float32, makes NaN of the other results of its tile
    case Accuracy::kDefault:
      return of_plain <= 4 || of_range <= 1e-4;
    case Accuracy::kFast:
      break;
  }
  return of_range <= 1e-3;
}

namespace {

WinogradError Sample(const NDArray& weight, int64_t a) {
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
  // Transformed once for all tiles.
  const int64_t channels = std::min(kChannels, out_channels);
  std::vector<std::array<float, 36>> filters(static_cast<size_t>(channels * in_channels));
  const auto kernel_of = [&](int64_t n) { return w + n * (out_channels / channels) * in_channels * 9; };
  for (int64_t n = 0; n < channels; ++n) {
    for (int64_t ic = 0; ic < in_channels; ++ic) {
      TransformWeight(a, kernel_of(n) + ic * 9, filters[static_cast<size_t>(n * in_channels + ic)].data(), 1);
    }
  }
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
    for (int64_t n = 0; n < channels; ++n) {
      const float* kernel = kernel_of(n);
      std::vector<float> product(squares, 0);
      for (int64_t ic = 0; ic < in_channels; ++ic) {
        const std::array<float, 36>& u = filters[static_cast<size_t>(n * in_channels + ic)];
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
  auto ratio = [](double part, double whole) { return part == 0 ? 0 : part / whole; };
  return {ratio(error, plain_error), ratio(error, high - low)};
}

WinogradError SampleUnlessLast(const NDArray& weight, int64_t a) {
  // Kernels, plans and reasons of one convolution ask again and again.
  thread_local NDArray last;
  thread_local std::map<int64_t, WinogradError> errors;
  if (!weight.same_as(last)) {
    last = weight;
    errors.clear();
  }
  auto known = errors.find(a);
  if (known == errors.end()) known = errors.emplace(a, Sample(weight, a)).first;
  return known->second;
}

}  // namespace

WinogradError SampleWinogradError(const NDArray& weight, int64_t a) {
  const std::vector<double> error = WeightForms::Measure(weight, StrCat("winograd error ", a), [&] {
    const WinogradError sampled = SampleUnlessLast(weight, a);
    return std::vector<double>{sampled.of_plain, sampled.of_range};
  });
  return {error[0], error[1]};
}

NDArray WinogradWeight(const NDArray& weight, int64_t a, int64_t ib, int64_t ob) {
  const int64_t out_channels = weight.shape()[0], in_channels = weight.shape()[1];
  NDArray result = NDArray::Empty({a, a, out_channels / ob, in_channels / ib, ib, ob}, DataType::Float(32));
  const float* from = weight.Data<float>();
  auto* to = result.Data<float>();
  const int64_t plane = out_channels * in_channels;
  // The channels of a block side by side, as they lie in the result: vectors of them, and whole lines of the cache.
  std::vector<double> taps(static_cast<size_t>(9 * ob)), columns(static_cast<size_t>(18 * ob));
  for (int64_t block = 0; block < out_channels / ob; ++block) {
    for (int64_t ic = 0; ic < in_channels; ++ic, to += ob) {
      for (int64_t lane = 0; lane < ob; ++lane) {
        const float* g = from + ((block * ob + lane) * in_channels + ic) * 9;
        for (int64_t k = 0; k < 9; ++k) taps[static_cast<size_t>(k * ob + lane)] = static_cast<double>(g[k]);
      }
      TransformLanes(a, ob, taps.data(), columns.data(), to, plane);
    }
  }
  return result;
}

std::vector<int64_t> WholeShifts(int64_t a) {
  if (a == kStridedSide) return {0, 0};
  return a == 4 ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{3, 2, 1, 1};
}

bool HoldsWholeSums(const NDArray& weight, int64_t a) {
  constexpr int64_t kMostData = 255;
  const int64_t outputs = weight.shape()[0], each = weight.size() / std::max<int64_t>(1, outputs);
  const std::vector<int64_t> shifts = WholeShifts(a);
  const int64_t limit = std::numeric_limits<int32_t>::max() >> (2 * *std::max_element(shifts.begin(), shifts.end()));
  const auto* from = weight.Data<int16_t>();
  for (int64_t o = 0; o < outputs; ++o, from += each) {
    int64_t positive = 0, negative = 0;
    for (int64_t i = 0; i < each; ++i) (from[i] > 0 ? positive : negative) += std::abs(from[i]);
    if (std::max(positive, negative) * kMostData > limit) return false;
  }
  return true;
}

namespace {

/// WeightTransform times the least factors that make it whole.
std::array<int32_t, 6> WholeWeightTransform(int64_t a, int32_t g0, int32_t g1, int32_t g2) {
  if (a == kStridedSide) return {g0, g0 + g2, g2, g1, g1, 0};
  if (a == 4) return {2 * g0, g0 + g1 + g2, g0 - g1 + g2, 2 * g2, 0, 0};
  return {g0, -(g0 + g1 + g2), -g0 + g1 - g2, g0 + 2 * g1 + 4 * g2, g0 - 2 * g1 + 4 * g2, g2};
}

}  // namespace

NDArray WholeWinogradWeight(const NDArray& weight, int64_t a, int64_t ib, int64_t ob) {
  const int64_t outputs = weight.shape()[0], inputs = weight.shape()[1];
  const int64_t out_blocks = CeilDiv(outputs, ob), in_blocks = CeilDiv(inputs, ib);
  NDArray result = NDArray::Empty({a, a, out_blocks, in_blocks, ib / 2, ob}, DataType::Int(32));
  auto* to = result.Data<int16_t>();
  std::fill(to, to + 2 * result.size(), int16_t{0});
  const auto* g = weight.Data<int16_t>();
  const int64_t plane = out_blocks * in_blocks * ib * ob;
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t c = 0; c < inputs; ++c, g += 9) {
      std::array<std::array<int32_t, 6>, 3> columns;
      for (size_t x = 0; x < 3; ++x) columns[x] = WholeWeightTransform(a, g[x], g[3 + x], g[6 + x]);
      const int64_t at = ((o / ob * in_blocks + c / ib) * (ib / 2) + c % ib / 2) * ob + o % ob;
      for (int64_t i = 0; i < a; ++i) {
        const auto row = static_cast<size_t>(i);
        const auto values = WholeWeightTransform(a, columns[0][row], columns[1][row], columns[2][row]);
        for (int64_t j = 0; j < a; ++j) {
          to[(i * a + j) * plane + 2 * at + c % 2] = static_cast<int16_t>(values[static_cast<size_t>(j)]);
        }
      }
    }
  }
  return result;
}

}  // namespace treadle::ops::cpu
