// SPDX-License-Identifier: Apache-2.0
#include "treadle/base/int_math.h"

#include <gtest/gtest.h>

#include <cmath>

namespace treadle {
namespace {

TEST(IntMath, RoundsUp) {
  EXPECT_EQ(CeilDiv(0, 4), 0);
  EXPECT_EQ(CeilDiv(int64_t{8}, 4), 2);
  EXPECT_EQ(CeilDiv(size_t{9}, 4), 3U);
  EXPECT_EQ(RoundUp(0, 16), 0);
  EXPECT_EQ(RoundUp(uint64_t{17}, 16), 32U);
}

TEST(IntMath, RoundsDownForAllSigns) {
  for (int64_t a = -9; a <= 9; ++a) {
    for (const int64_t b : {-4, -3, -1, 1, 3, 4}) {
      const auto expected = static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
      EXPECT_EQ(FloorDivInt(a, b), expected) << a << " / " << b;
      EXPECT_EQ(FloorModInt(a, b), a - expected * b) << a << " % " << b;
    }
  }
}

}  // namespace
}  // namespace treadle
