// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "treadle/relay/layout.h"

namespace treadle::relay {
namespace {

TEST(ChannelLayout, IsSpelledForAttributesWithoutGroups) {
  EXPECT_EQ(ChannelLayout().axes(), "NCHW");
  EXPECT_EQ((ChannelLayout{16}).axes(), "NCHW16c");
  EXPECT_EQ((ChannelLayout{8, 4, true}).axes(), "NCHW8c");
  EXPECT_EQ((ChannelLayout{8, 4}).str(), "NCHW8c*4");
  EXPECT_EQ((ChannelLayout{8, 4, true}).str(), "NCHW8c%4");
}

TEST(ChannelLayout, PadsTheLastBlockOfEachGroup) {
  EXPECT_EQ(ChannelLayout().PaddedChannels(30), 30);
  EXPECT_EQ((ChannelLayout{16}).PaddedChannels(30), 32);
  EXPECT_EQ((ChannelLayout{16, 3}).PaddedChannels(30), 48);
  EXPECT_TRUE((ChannelLayout{16}).HasPadding(30));
  EXPECT_FALSE((ChannelLayout{16}).HasPadding(32));
  EXPECT_FALSE((ChannelLayout{16}).HasPadding(-1));
}

TEST(ChannelLayout, MapsChannelsToWhereTheyLie) {
  EXPECT_EQ((ChannelLayout{4}).ChannelIndexMap(6), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ((ChannelLayout{4, 2}).ChannelIndexMap(6), (std::vector<int64_t>{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ((ChannelLayout{4, 2, true}).ChannelIndexMap(6), (std::vector<int64_t>{0, 4, 1, 5, 2, 6}));
}

TEST(ChannelLayout, ShufflesWhereGroupsHaveBlocksOfTheirOwn) {
  EXPECT_EQ((ChannelLayout{8}).Shuffled(32, 4), (ChannelLayout{8, 4, true}));
  EXPECT_EQ((ChannelLayout{8, 4}).Shuffled(24, 4), (ChannelLayout{8, 4, true}));
  EXPECT_TRUE((ChannelLayout{8}).Shuffled(24, 4).is_plain());
  EXPECT_TRUE((ChannelLayout{8, 4, true}).Shuffled(32, 4).is_plain());
  EXPECT_TRUE(ChannelLayout().Shuffled(32, 4).is_plain());
}

TEST(ChannelLayout, OrdersPlainBeforeLargeBlocksBeforeSmallOnes) {
  const std::set<ChannelLayout> layouts{{8}, {16, 2}, {}, {16, 2, true}, {16}};
  std::string order;
  for (const ChannelLayout& layout : layouts) order += layout.str() + " ";
  EXPECT_EQ(order, "NCHW NCHW16c NCHW16c%2 NCHW16c*2 NCHW8c ");
}

TEST(PaddedLayout, PadsWhereItCostsLittle) {
  EXPECT_EQ(PaddedLayout(32, 8), (ChannelLayout{16}));
  EXPECT_EQ(PaddedLayout(24, 8), (ChannelLayout{8}));
  EXPECT_EQ(PaddedLayout(24, 16), (ChannelLayout{16}));
  EXPECT_EQ(PaddedLayout(30, 8), (ChannelLayout{16}));
  EXPECT_EQ(PaddedLayout(24, 16, 2), (ChannelLayout{16, 2}));
  EXPECT_TRUE(PaddedLayout(3, 16).is_plain());
  EXPECT_TRUE(PaddedLayout(-1, 16).is_plain());
  EXPECT_EQ(DividingLayout(24), (ChannelLayout{8}));
  EXPECT_TRUE(DividingLayout(12).is_plain());
}

}  // namespace
}  // namespace treadle::relay
