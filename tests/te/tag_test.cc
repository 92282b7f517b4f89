// SPDX-License-Identifier: Apache-2.0
#include "treadle/te/tag.h"

#include <gtest/gtest.h>

namespace treadle::te {
namespace {

ComputeKind KindOf(const char* text) { return Tag::Parse(text).kind; }

TEST(Tag, KindsOfGraphOperators) {
  EXPECT_EQ(KindOf(tag::kElemWise), ComputeKind::kElementwise);
  EXPECT_EQ(KindOf(tag::kBroadcast), ComputeKind::kBroadcast);
  EXPECT_EQ(KindOf(tag::kInjective), ComputeKind::kInjective);
  EXPECT_EQ(KindOf(tag::kCommReduce), ComputeKind::kReduction);
  EXPECT_EQ(KindOf(tag::kCommReduceIdx), ComputeKind::kReduction);
  EXPECT_EQ(KindOf(tag::kPoolMax), ComputeKind::kPool);
  EXPECT_EQ(KindOf(tag::kPoolAvg), ComputeKind::kPool);
  EXPECT_EQ(KindOf(tag::kDense), ComputeKind::kMatmul);
  EXPECT_EQ(KindOf(tag::kMatmul), ComputeKind::kMatmul);
  EXPECT_EQ(KindOf(tag::kBatchMatmul), ComputeKind::kMatmul);
  EXPECT_EQ(KindOf(tag::kConvTranspose), ComputeKind::kConv);
}

TEST(Tag, PartsOfWordsAreAttributes) {
  const Tag pad = Tag::Parse(tag::kPad), constant = Tag::Parse(tag::kConstant);
  EXPECT_TRUE(pad.is_injective() && pad.pads && !pad.constant);
  EXPECT_TRUE(constant.is_injective() && constant.constant && !constant.pads);
}

TEST(Tag, KindsOfTvmsConvolutionsAndProducts) {
  for (const char* text : {"conv2d_nchw", "depthwise_conv2d_nhwc", "group_conv2d_nchw", "conv1d_transpose_ncw",
                           "conv2d_NCHWc", "conv3d_ndhwc", "deformable_conv2d_nchw"}) {
    EXPECT_EQ(KindOf(text), ComputeKind::kConv) << text;
  }
  EXPECT_EQ(KindOf("dense_pack"), ComputeKind::kMatmul);
  EXPECT_EQ(KindOf("adaptive_pool_sum"), ComputeKind::kPool);
}

TEST(Tag, WordsThatOnlyLookLikeOthersSayNothing) {
  for (const char* text : {"", "converted", "condense", "spool", "Injective", "injectives", ",,", "_", "elemwise "}) {
    EXPECT_EQ(KindOf(text), ComputeKind::kOther) << text;
    EXPECT_EQ(Tag::Parse(text).text, text);
  }
  EXPECT_FALSE(Tag::Parse("padded").pads);
}

}  // namespace
}  // namespace treadle::te
