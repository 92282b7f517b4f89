// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/layout.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_set>

#include "treadle/base/error.h"

namespace treadle {
namespace {

/// The message of the error that `text` gives; "" where it is a layout.
std::string ErrorOf(const std::string& text) {
  try {
    Layout layout(text);
    return "";
  } catch (const ShapeError& error) {
    return error.what();
  }
}

TEST(Layout, HasAxesAndBlocks) {
  const Layout layout("NCHW16c");
  ASSERT_EQ(layout.ndim(), 5U);
  EXPECT_EQ(layout[1].name, 'C');
  EXPECT_FALSE(layout[1].is_inner());
  EXPECT_EQ(layout[4], (LayoutAxis{'c', 16}));
  EXPECT_EQ(layout[4].primal(), 'C');
  EXPECT_EQ(layout.primal_axes(), "NCHW");
  EXPECT_EQ(layout.str(), "NCHW16c");
  EXPECT_FALSE(layout.IsPlain());
  EXPECT_TRUE(Layout("NHWC").IsPlain());
}

TEST(Layout, FindsAxesByName) {
  const Layout layout("OIHW8i16o");
  EXPECT_EQ(layout.IndexOf('I'), 1);
  EXPECT_EQ(layout.IndexOf('o'), 5);
  EXPECT_EQ(layout.IndexOf('C'), -1);
  EXPECT_EQ(layout.BlockOf('O'), 16);
  EXPECT_EQ(layout.BlockOf('H'), 1);
  EXPECT_EQ(layout.BlockOf('o'), 1);
}

TEST(Layout, ComparesByAxes) {
  EXPECT_EQ(Layout("NCHW8c"), Layout("NCHW8c"));
  EXPECT_EQ(Layout("NCHW08c"), Layout("NCHW8c"));
  EXPECT_NE(Layout("NCHW8c"), Layout("NCHW16c"));
  EXPECT_EQ(std::unordered_set<Layout>({Layout("NCHW"), Layout("NHWC"), Layout("NCHW")}).size(), 2U);
  EXPECT_EQ(Layout().ndim(), 0U);
}

TEST(Layout, HasAxesOfAnotherInAnyOrder) {
  EXPECT_TRUE(Layout("NHWC").HasAxesOf(Layout("NCHW")));
  EXPECT_FALSE(Layout("NCHW8c").HasAxesOf(Layout("NCHW16c")));
  EXPECT_FALSE(Layout("NCHW").HasAxesOf(Layout("NCDHW")));
}

TEST(Layout, SaysWhereTextIsWrong) {
  EXPECT_EQ(ErrorOf(""), "layout \"\", character 1: it is empty; expected dimensions such as NCHW or NCHW16c");
  EXPECT_EQ(ErrorOf("8"), "layout \"8\", character 2: it ends in a number; expected the small letter of a block");
  EXPECT_EQ(ErrorOf("NC8cHW8c"), "layout \"NC8cHW8c\", character 8: 'c' occurs twice");
  EXPECT_EQ(ErrorOf("NCHWC"), "layout \"NCHWC\", character 5: 'C' occurs twice");
  EXPECT_EQ(ErrorOf("NHW8c"), "layout \"NHW8c\", character 5: a block of dimension 'C', which isn't there");
  EXPECT_EQ(ErrorOf("NCHWc"), "layout \"NCHWc\", character 5: block 'c' needs a positive number before it");
  EXPECT_EQ(ErrorOf("NCHW0c"), "layout \"NCHW0c\", character 5: block 'c' needs a positive number before it");
  EXPECT_EQ(ErrorOf("N16CHW"),
            "layout \"N16CHW\", character 2: a number before dimension 'C'; blocks have small letters");
  EXPECT_EQ(ErrorOf("NCHW99999999999999999999c"),
            "layout \"NCHW99999999999999999999c\", character 5: a block of more than 1048576 elements");
  EXPECT_EQ(ErrorOf("NCHW-8c"), "layout \"NCHW-8c\", character 5: unexpected '-'");
  EXPECT_EQ(ErrorOf("NCHW*4"), "layout \"NCHW*4\", character 5: unexpected '*'");
  EXPECT_EQ(ErrorOf("N\xC3\x87HW"), "layout \"N\\xc3\\x87HW\", character 2: unexpected '\\xc3'");
  EXPECT_EQ(ErrorOf(std::string("NC\0HW", 5)), "layout \"NC\\x00HW\", character 3: unexpected '\\x00'");
}

TEST(Layout, RefusesLongTextWithoutQuotingAllOfIt) {
  const std::string message = ErrorOf(std::string(1 << 20, 'N'));
  EXPECT_EQ(message.find("layout \"NNNN"), 0U);
  EXPECT_LT(message.size(), 200U);
}

TEST(Layout, ParsesOrRefusesAnyText) {
  std::mt19937 random(7);
  const std::string letters = "NCHWDOIcoi0123456789*% \xFF";
  int layouts = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t n = random() % 9; n > 0; --n) text += letters[random() % letters.size()];
    try {
      const Layout layout(text);
      EXPECT_EQ(layout.str(), text);
      std::string again;
      for (const LayoutAxis& axis : layout.axes()) {
        if (axis.is_inner()) again += std::to_string(axis.factor);
        again += axis.name;
        EXPECT_EQ(&layout[static_cast<size_t>(layout.IndexOf(axis.name))], &axis);
      }
      EXPECT_EQ(Layout(again), layout);
      ++layouts;
    } catch (const ShapeError&) {
    }
  }
  EXPECT_GT(layouts, 100);
}

}  // namespace
}  // namespace treadle
