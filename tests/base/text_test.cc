// SPDX-License-Identifier: Apache-2.0
// Text is the same whatever locale the program around has set.
#include "treadle/base/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <locale>

#include "treadle/base/error.h"
#include "treadle/base/html.h"

namespace treadle {
namespace {

/// "1.024" and "0,5", as in Germany; needs no locale to be installed.
struct GermanNumbers : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

class UnderAnyLocale : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) std::locale::global(std::locale(std::locale::classic(), new GermanNumbers));
  }
  void TearDown() override { std::locale::global(std::locale::classic()); }
};
INSTANTIATE_TEST_SUITE_P(All, UnderAnyLocale, ::testing::Bool());

struct Named {
  std::string str() const { return "named"; }
};
enum Old { kOld = 7 };

TEST_P(UnderAnyLocale, ConcatenatesValues) {
  EXPECT_EQ(StrCat("n=", 1024, ' ', -1234567890123456789LL, " ", 18446744073709551615ULL),
            "n=1024 -1234567890123456789 18446744073709551615");
  EXPECT_EQ(StrCat(0.5, " ", 1.0f / 3, " ", 1e10, " ", 1234567.0), "0.5 0.333333 1e+10 1.23457e+06");
  EXPECT_EQ(StrCat(true, int8_t{-5}, uint8_t{65}, 'c', kOld, Named()), "1-565c7named");
  EXPECT_EQ(StrCat(std::string("a"), std::string_view("b")), "ab");
  EXPECT_EQ(StrCat(std::nan(""), std::numeric_limits<double>::infinity()), "naninf");
  EXPECT_EQ(StrCat(), "");
}

TEST_P(UnderAnyLocale, ChecksSayTheirNumbers) {
  try {
    TREADLE_ICHECK(1 == 2) << "n is " << 4096;
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("check failed: 1 == 2 n is 4096"), std::string::npos) << error.what();
  }
}

TEST_P(UnderAnyLocale, WritesNumbersAsPrintfDoesInC) {
  EXPECT_EQ(FixedText(1234.5678, 2), "1234.57");
  EXPECT_EQ(FixedText(-0.0, 1), "-0.0");
  EXPECT_EQ(GeneralText(0.1, 9), "0.1");
  EXPECT_EQ(GeneralText(1e-7, 17), "9.9999999999999995e-08");
  EXPECT_EQ(HexFloatText(1.5), "0x1.8p+0");
  EXPECT_EQ(HexFloatText(-0.1f), "-0x1.99999ap-4");
  EXPECT_EQ(HexText(255, 4), "00ff");
  EXPECT_EQ(HexText(0), "0");
}

TEST_P(UnderAnyLocale, ReadsNumbers) {
  EXPECT_EQ(ParseDouble("0.5"), 0.5);
  EXPECT_EQ(ParseFloat("1e10"), 1e10f);
  EXPECT_EQ(ParseInt("-1024"), -1024);
  for (const char* text : {"", "0,5", "1.5x", " 1"}) EXPECT_FALSE(ParseDouble(text)) << text;
  EXPECT_FALSE(ParseInt("9223372036854775808"));
  EXPECT_EQ(SplitWords("  a b\t1.5\n"), (std::vector<std::string>{"a", "b", "1.5"}));
}

TEST(HtmlTest, EscapesWhatHasAMeaning) {
  EXPECT_EQ(EscapeHtml("<a b=\"c\"> & \xc3\xa4"), "&lt;a b=&quot;c&quot;&gt; &amp; \xc3\xa4");
}

}  // namespace
}  // namespace treadle
