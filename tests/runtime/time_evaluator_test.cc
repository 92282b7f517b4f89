// SPDX-License-Identifier: Apache-2.0
#include "runtime/time_evaluator.h"

#include <gtest/gtest.h>

#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

TEST(TimeEvaluatorTest, OfSeveralPairsTheLeastTimesCount) {
  const TimedPair pair = LeastOf({{5, 3, false}, {2, 9, false}, {4, 4, false}, {8, 8, false}});
  EXPECT_EQ(pair.a, 2);
  EXPECT_EQ(pair.b, 3);
  EXPECT_FALSE(pair.disturbed);
}

TEST(TimeEvaluatorTest, DisturbedOnesCountWhereFewOthersAreLeft) {
  const TimedPair calm = LeastOf({{1, 1, true}, {2, 3, false}, {4, 2, false}, {1, 1, true}});
  EXPECT_EQ(calm.a, 2);
  EXPECT_EQ(calm.b, 2);
  EXPECT_FALSE(calm.disturbed);
  const TimedPair noisy = LeastOf({{1, 5, true}, {2, 3, false}, {4, 2, true}, {6, 6, true}});
  EXPECT_EQ(noisy.a, 1);
  EXPECT_EQ(noisy.b, 2);
  EXPECT_TRUE(noisy.disturbed);
  EXPECT_FALSE(LeastOf({{1, 2, false}}).disturbed);
  EXPECT_TRUE(LeastOf({{1, 2, true}}).disturbed);
  EXPECT_THROW(LeastOf({}), Error);
}

TEST(TimeEvaluatorTest, TheSpreadOfPartsIsThatOfTheNoisierSide) {
  EXPECT_DOUBLE_EQ(SpreadOf({{2, 4, false}, {2, 5, false}, {2, 9, true}}), 1.25);
  EXPECT_DOUBLE_EQ(SpreadOf({{3, 1, false}}), 1);
  EXPECT_THROW(SpreadOf({}), Error);
}

}  // namespace
}  // namespace treadle::runtime
