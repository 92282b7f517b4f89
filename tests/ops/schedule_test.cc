// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "targets/cpu/schedule/cpu.h"

namespace treadle::ops::cpu {
namespace {

TEST(UnevennessTest, PartsThatDivideAreEven) {
  EXPECT_DOUBLE_EQ(Unevenness(8, 1, 1, 1, 2), 1);
  EXPECT_DOUBLE_EQ(Unevenness(7, 1, 4, 1, 2), 1);
  EXPECT_DOUBLE_EQ(Unevenness(5, 0.5, 3, 7, 1), 1);
}

TEST(UnevennessTest, OneThreadTakesThePartLeftOver) {
  EXPECT_DOUBLE_EQ(Unevenness(7, 1, 1, 1, 2), 8.0 / 7);
  EXPECT_DOUBLE_EQ(Unevenness(3, 1, 1, 1, 4), 4.0 / 3);
}

TEST(UnevennessTest, TheLastPartIsSmaller) { EXPECT_DOUBLE_EQ(Unevenness(2, 0.5, 1, 1, 2), 2 / 1.5); }

}  // namespace
}  // namespace treadle::ops::cpu
