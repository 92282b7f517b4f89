// SPDX-License-Identifier: Apache-2.0
#include "runtime/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/hash64.h"
#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Json, ReadsEveryKind) {
  JsonValue v = JsonValue::Parse(R"( {"a": [1, -2, 3.5e1, true, null], "s": "x\n\u00e9\ud83d\ude00"} )", "t");
  const auto& a = v.At("a", "t").AsArray("t");
  EXPECT_EQ(a[0].AsInt("t"), 1);
  EXPECT_EQ(a[1].AsInt("t"), -2);
  EXPECT_EQ(a[2].AsDouble("t"), 35.0);
  EXPECT_TRUE(a[3].AsBool("t"));
  EXPECT_TRUE(a[4].is_null());
  EXPECT_EQ(v.At("s", "t").AsString("t"), "x\n\xc3\xa9\xf0\x9f\x98\x80");
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":1,}", "01", "1.", "+1", "nul", "\"\x01\"", "\"\\ud800\"", "[1] 2",
                           "{\"a\":1,\"a\":2}", "{a:1}", "'x'", "1e999", "\"unterminated", "[1 2]", "NaN"}) {
    EXPECT_THROW(JsonValue::Parse(text, "t"), ModelFormatError) << text;
  }
}

TEST(Json, LimitsNesting) {
  EXPECT_THAT([] { JsonValue::Parse(std::string(100000, '['), "graph"); },
              ThrowsMessage<ModelFormatError>(HasSubstr("nested too deeply")));
}

TEST(Json, MismatchNamesThePath) {
  JsonValue v = JsonValue::Parse("{\"a\":\"x\"}", "t");
  EXPECT_THAT([&] { v.At("a", "t").AsInt("t.a"); },
              ThrowsMessage<ModelFormatError>("t.a: expected an integer, found a string"));
  EXPECT_THAT([&] { v.At("b", "t"); }, ThrowsMessage<ModelFormatError>("t: \"b\" is missing"));
}

TEST(Json, QuotesSoThatItReadsItself) {
  std::string text = "a\"b\\c\nd\x01 é";
  EXPECT_EQ(JsonValue::Parse(JsonQuote(text), "t").AsString("t"), text);
}

TEST(Hash64, PiecesHashAsTheWhole) {
  std::string text;
  for (int i = 0; i < 200; ++i) text.push_back(static_cast<char>(i * 37));
  for (size_t a = 0; a <= text.size(); a += 3) {
    for (size_t b = a; b <= text.size(); b += 7) {
      Hasher64 hasher(5);
      hasher.Update(std::string_view(text).substr(0, a));
      hasher.Update(std::string_view(text).substr(a, b - a));
      hasher.Update(std::string_view(text).substr(b));
      EXPECT_EQ(hasher.Finish(), Hash64(text, 5)) << a << ' ' << b;
    }
  }
}

TEST(Hash64, AgreesWithTheReferenceVectors) {
  EXPECT_EQ(Hash64(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(Hash64("abc"), 0x44BC2CF5AD770999u);
  EXPECT_EQ(Hash64("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1u);
}

}  // namespace
}  // namespace treadle::runtime
