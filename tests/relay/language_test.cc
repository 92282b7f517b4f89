// SPDX-License-Identifier: Apache-2.0
// The language as a whole: programs with the text that they print as, and texts that are refused with the message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "treadle/ir/structural.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {
namespace {

struct Case {
  std::string name, text, expected;
};

/// Parts "=== NAME\nTEXT\n---\nEXPECTED\n" of a file under tests/data/relay.
std::vector<Case> ReadCases(const std::string& file) {
  std::ifstream stream(TREADLE_SOURCE_DIR "/tests/data/relay/" + file, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  std::vector<Case> cases;
  const std::string mark = "\n=== ", middle = "\n---\n";
  for (size_t at = all.find(mark); at != std::string::npos;) {
    const size_t next = all.find(mark, at + 1);
    const std::string part = all.substr(at + mark.size(), next == std::string::npos ? next : next - at - mark.size());
    const size_t line = part.find('\n'), split = part.find(middle, line);
    std::string expected = part.substr(split + middle.size());
    while (!expected.empty() && expected.back() == '\n') expected.pop_back();
    cases.push_back({part.substr(0, line), part.substr(line + 1, split - line - 1), expected});
    at = next;
  }
  return cases;
}

std::string WithoutLastLineBreaks(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class Language : public testing::Test {
 protected:
  static void SetUpTestSuite() { ops::RegisterAllOps(); }

  static std::string ErrorOf(const std::string& text) {
    try {
      ParseModule(text, "t");
    } catch (const InternalError& error) {
      return StrCat("internal: ", error.what());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static std::string Repeat(const std::string& part, int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += part;
    return text;
  }
};

TEST_F(Language, ProgramsPrintAsExpectedAndReadTheSame) {
  const std::vector<Case> cases = ReadCases("accepted.txt");
  EXPECT_GT(cases.size(), 100u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const IRModule module = ParseModule(c.text, "t");
    const std::string printed = AsText(module);
    EXPECT_EQ(WithoutLastLineBreaks(printed), c.expected);
    const IRModule again = ParseModule(printed, "again");
    EXPECT_EQ(StructuralDifference(module, again, /*map_free_vars=*/true), "");
    EXPECT_EQ(StructuralHash(module, true), StructuralHash(again, true));
    EXPECT_EQ(AsText(again), printed);
  }
}

TEST_F(Language, OtherTextsAreRefusedWithTheirPlace) {
  const std::vector<Case> cases = ReadCases("refused.txt");
  EXPECT_GT(cases.size(), 60u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(ErrorOf(c.text), c.expected);
    EXPECT_THAT(c.expected, testing::HasSubstr("\n --> t:"));
  }
}

TEST_F(Language, BytesThatAreNoText) {
  EXPECT_THAT(ErrorOf(std::string("def @f() { 1 }\0x", 16)), testing::HasSubstr("unexpected byte 0\n --> t:1:15"));
  EXPECT_THAT(ErrorOf("def @f() { \xff }"), testing::HasSubstr("unexpected byte 255"));
}

TEST_F(Language, StringsOfAnyBytesRoundTrip) {
  const std::string text = "#[version = \"0.0.5\"]\ndef @f(s=\"\\x00\\x1b\\xff\\xc3 \xc3\xa9\\xe4\\xb8\") {\n  1\n}\n";
  EXPECT_EQ(AsText(ParseModule(text, "t", false)), text);
}

TEST_F(Language, NamesWithSlashesRoundTrip) {
  const std::string text = "#[version = \"0.0.5\"]\ndef @a/b(%x/y.z, %\"v/\", \"a/b\"=1) {\n  (%x/y.z, %\"v/\")\n}\n";
  EXPECT_EQ(AsText(ParseModule(text, "t", false)), text);
}

TEST_F(Language, NumbersBeyondTheirTypeAreRefused) {
  for (const char* number : {"256u8", "128i8", "-129i8", "65536u16", "4294967296u32", "18446744073709551616u64",
                             "9223372036854775808", "1e39f", "1e400f64", "65520f16", "1e39bf16"}) {
    SCOPED_TRACE(number);
    EXPECT_NE(ErrorOf(StrCat("def @f() { ", number, " }")), "");
  }
}

TEST_F(Language, NumbersKeepTheirBits) {
  const std::string text =
      "(nanf, -nanf, nanf64, nanf16, nanbf16, inff, -inff, inff16, -infbf16, -0f, -0f64, -0f16, 1e-45f, 5e-324f64, "
      "3.4028235e+38f, 65504f16, -9223372036854775808i64)";
  EXPECT_EQ(PrettyPrint(ParseExpr(text)), text);
}

TEST_F(Language, DeepTextsAreReadOrRefused) {
  constexpr int kDeep = 200000;
  auto main = [](const std::string& body) { return "def @main(%x: float32) { " + body + " }"; };
  EXPECT_EQ(ErrorOf(main(Repeat("(", kDeep) + "%x" + Repeat(")", kDeep))), "");
  EXPECT_EQ(ErrorOf(main(Repeat("(", kDeep) + "%x" + Repeat(",)", kDeep))), "");
  EXPECT_EQ(ErrorOf("def @main(%x: " + Repeat("(", kDeep) + "int32" + Repeat(",)", kDeep) + ") { 1 }"), "");
  EXPECT_EQ(ErrorOf("def @main(%x: " + Repeat("fn () -> ", kDeep) + "int32) { 1 }"), "");
  EXPECT_THAT(ErrorOf(main(Repeat("{", kDeep))), testing::HasSubstr("blocks nest deeper"));
  EXPECT_THAT(ErrorOf(main(Repeat("let %y = (", kDeep))), testing::HasSubstr("bindings nest in parentheses deeper"));
  EXPECT_THAT(ErrorOf(main(Repeat("(", 1000000))), testing::HasSubstr("brackets nest deeper"));
}

TEST_F(Language, TypesThatDoubleAtEachStepAreRefused) {
  std::string text = "def @main(%x: float32) { let %a0 = (%x, %x); ";
  for (int i = 1; i < 60; ++i) text += StrCat("let %a", i, " = (%a", i - 1, ", %a", i - 1, "); ");
  EXPECT_THAT(ErrorOf(text + "1 }"), testing::HasSubstr("the type of this expression has more than"));
}

TEST_F(Language, BlocksWithinBlocksPrintInLinearTime) {
  constexpr int kBlocks = 3000;
  const std::string text =
      "def @main(%x: float32) { " + Repeat("let %y = {", kBlocks) + "%x" + Repeat("}; %y", kBlocks) + " }";
  const IRModule module = ParseModule(text, "t");
  EXPECT_EQ(StructuralDifference(ParseModule(AsText(module), "t"), module), "");
}

}  // namespace
}  // namespace treadle::relay
