// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/infer.h"
#include "ops/te_util.h"

namespace treadle::ops {

/// Where sums of `count` terms of `dtype` are accumulated that are added one after another (as where vectors run along
/// another dimension): rounding errors grow with their number, so that many of float32 are added in float64. That
/// takes no longer: such a loop waits for the latency of additions.
inline DataType LongSumDType(DataType dtype, const PrimExpr& count) {
  constexpr int64_t kShort = 32;
  const DataType accumulator = AccumulatorDType(dtype);
  const int64_t terms = DimValue(count);
  const bool is_long = terms < 0 || terms > kShort;
  return accumulator == DataType::Float(32) && is_long ? DataType::Float(64) : accumulator;
}

}  // namespace treadle::ops
