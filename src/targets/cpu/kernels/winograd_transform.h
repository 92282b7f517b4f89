// SPDX-License-Identifier: Apache-2.0
// Winograd's minimal filtering F(m x m, 3 x 3) (Lavin and Gray 2015, "Fast Algorithms for Convolutional Neural
// Networks"): a tile of m x m outputs takes (m + 2) x (m + 2) multiplications instead of 9 * m * m; with stride 2, a
// tile of 2 x 2 takes 25 instead of 36. The points of interpolation are 0, 1, -1 and infinity for m = 2, and also 2 and
// -2 for m = 4.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/accuracy.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::ops::cpu {

/// The side of the square of inputs that a tile is computed from tells which form: 4 and 6 for tiles of 2 x 2 and 4 x 4
/// outputs with stride 1; 5 for tiles of 2 x 2 with stride 2, whose even inputs meet the outer weights by F(2, 2) and
/// whose odd inputs the one between.
inline constexpr int64_t kStridedSide = 5;

/// Pass option: whether convolutions may use the method at all.
inline constexpr const char* kWinogradOption = "relay.PlanLayout.winograd";

inline int64_t StrideOf(int64_t side) { return side == kStridedSide ? 2 : 1; }
inline int64_t TileOf(int64_t side) { return side == kStridedSide ? 2 : side - 2; }

/// A whole number times a number or an expression.
inline float Times(int c, float x) { return static_cast<float>(c) * x; }
inline PrimExpr Times(int c, const PrimExpr& x) { return tir::make_const(x.dtype(), c) * x; }

/// Transform of one dimension of a square of inputs; T is a number or an expression.
template <typename T>
std::vector<T> InputTransform(int64_t a, const std::vector<T>& d) {
  auto times = [](int c, const T& x) -> T { return Times(c, x); };
  if (a == kStridedSide) return {d[0] - d[2], d[2], d[4] - d[2], d[1], d[3]};
  if (a == 4) return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]};
  T even = d[4] - times(4, d[2]), odd = d[3] - times(4, d[1]);
  T even2 = d[4] - d[2], odd2 = times(2, d[3] - d[1]);
  return {times(4, d[0]) - times(5, d[2]) + d[4], even + odd, even - odd, even2 + odd2, even2 - odd2,
          times(4, d[1]) - times(5, d[3]) + d[5]};
}

/// Transform of one dimension of the products back to outputs.
template <typename T>
std::vector<T> OutputTransform(int64_t a, const std::vector<T>& v) {
  auto times = [](int c, const T& x) -> T { return Times(c, x); };
  if (a == kStridedSide) return {v[0] + v[1] + v[3], v[1] + v[2] + v[4]};
  if (a == 4) return {v[0] + v[1] + v[2], v[1] - v[2] - v[3]};
  T sum = v[1] + v[2], difference = v[1] - v[2], sum2 = v[3] + v[4], difference2 = v[3] - v[4];
  return {v[0] + sum + sum2, difference + times(2, difference2), sum + times(4, sum2),
          difference + times(8, difference2) + v[5]};
}

/// The same for integers, whose weights are those of WholeWinogradWeight: output i is the result times
/// kOddFactor << WholeShifts(a)[i] where a is 6, times 1 << WholeShifts(a)[i] otherwise.
template <typename T>
std::vector<T> WholeOutputTransform(int64_t a, const std::vector<T>& v) {
  if (a != 6) return OutputTransform(a, v);
  auto times = [](int c, const T& x) -> T { return Times(c, x); };
  T sum = v[1] + v[2], difference = v[1] - v[2], sum2 = v[3] + v[4], difference2 = v[3] - v[4];
  return {times(6, v[0]) + times(4, sum) + sum2, times(2, difference) + difference2, sum + sum2,
          difference + times(2, difference2) + times(6, v[5])};
}
inline constexpr int64_t kOddFactor = 3;
std::vector<int64_t> WholeShifts(int64_t a);

/// Whether integers give the sums of data from 0 to 255 exactly: those of 32 bits hold each result times what the
/// outputs are multiplied by but for odd factors, which have an inverse modulo 2^32. What passes before may wrap.
/// `weight`: (OC, IC, 3, 3) int16 from -128 to 127. Transformed data and weights fit 16 bits: they are at most
/// 68 * 255 and 49 * 128.
bool HoldsWholeSums(const runtime::NDArray& weight, int64_t a);
/// That weight as (side, side, OC/ob, IC/ib, ib/2, ob) words of two int16, transformed with the least whole factors.
/// Channels that pad blocks are 0.
runtime::NDArray WholeWinogradWeight(const runtime::NDArray& weight, int64_t a, int64_t ib, int64_t ob);

/// How much less accurate results from squares of that side are than direct ones, on pseudo-random activations: the
/// largest error against float64, as a multiple of that of the plain sum, and as a part of the range of the outputs.
struct WinogradError {
  double of_plain, of_range;
  bool Within(treadle::transform::Accuracy accuracy) const;
};
WinogradError SampleWinogradError(const runtime::NDArray& weight, int64_t side);

/// The weight (OC, IC, 3, 3) as (side, side, OC/ob, IC/ib, ib, ob), transformed in float64.
runtime::NDArray WinogradWeight(const runtime::NDArray& weight, int64_t side, int64_t ib, int64_t ob);

}  // namespace treadle::ops::cpu
