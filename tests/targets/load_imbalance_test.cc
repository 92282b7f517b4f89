// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "targets/cpu/schedule/cpu.h"

namespace treadle::ops::cpu {
namespace {

TEST(LoadImbalanceTest, PartsThatDivideAreEven) {
  EXPECT_DOUBLE_EQ(LoadImbalance(8, 1, 1, 1, 2), 1);
  EXPECT_DOUBLE_EQ(LoadImbalance(7, 1, 4, 1, 2), 1);
  EXPECT_DOUBLE_EQ(LoadImbalance(5, 0.5, 3, 7, 1), 1);
}

TEST(LoadImbalanceTest, OneThreadTakesThePartLeftOver) {
  EXPECT_DOUBLE_EQ(LoadImbalance(7, 1, 1, 1, 2), 8.0 / 7);
  EXPECT_DOUBLE_EQ(LoadImbalance(3, 1, 1, 1, 4), 4.0 / 3);
}

TEST(LoadImbalanceTest, TheLastPartIsSmaller) { EXPECT_DOUBLE_EQ(LoadImbalance(2, 0.5, 1, 1, 2), 2 / 1.5); }

}  // namespace
}  // namespace treadle::ops::cpu
