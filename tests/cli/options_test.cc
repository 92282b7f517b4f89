// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include "cli/compiler_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ParseShapes, SeveralInOneTextAndInSeveralTexts) {
  EXPECT_THAT(ParseShapes({"x:[1,3, 224,224] y:[8]", "z:[]"}),
              ElementsAre(Pair("x", ElementsAre(1, 3, 224, 224)), Pair("y", ElementsAre(8)), Pair("z", IsEmpty())));
}

TEST(ParseShapes, NamesMayHoldColonsAndSlashes) {
  EXPECT_THAT(ParseShapes({"gpu_0/data:0:[2]"}), ElementsAre(Pair("gpu_0/data:0", ElementsAre(2))));
}

TEST(ParseShapes, NonsenseIsAnErrorThatSaysWhatIsExpected) {
  for (const char* text : {"x", "x:[1", "x:1,2", "x:[a]", "x:[1,]", "x:[-1]", "x:[99999999999999999999]"}) {
    EXPECT_THROW(ParseShapes({text}), Error) << text;
  }
}

TEST(ParseDims, SizesArePositiveRangesAreLeftToTheCompiler) {
  CompileRequest request;
  ParseDims({"batch=4", "a=b=2", "height=1..8,width=32k"}, &request);
  EXPECT_THAT(request.dims, ElementsAre(Pair("a=b", 2), Pair("batch", 4)));
  EXPECT_THAT(request.dim_ranges, ElementsAre(Pair("height", "1..8"), Pair("width", "32k")));
  for (const char* text : {"batch", "=1", "batch=", "batch=0", "batch=1,batch=2"})
    EXPECT_THROW(ParseDims({text}, &request), Error) << text;
}

TEST(SplitLists, CommasAndRepetition) {
  EXPECT_THAT(SplitLists({"relay,tir", "ll", ""}), ElementsAre("relay", "tir", "ll"));
}

}  // namespace
}  // namespace treadle::cli
