// SPDX-License-Identifier: Apache-2.0
// Text in, text out: printing and parsing of graph IR.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "treadle/base/json.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {
namespace {

using testing::HasSubstr;

class Text : public testing::Test {
 protected:
  static void SetUpTestSuite() { ops::RegisterAllOps(); }
};

const char kVersion[] = "#[version = \"0.0.5\"]\n";

/// Parses, prints, and expects the text back; also that what is parsed again is structurally equal.
void ExpectSameText(const std::string& text, bool infer = false) {
  SCOPED_TRACE(text.substr(0, 2000));
  IRModule module = ParseModule(text, "test", infer);
  std::string printed = AsText(module);
  EXPECT_EQ(printed, text);
  IRModule again = ParseModule(printed, "again", infer);
  EXPECT_EQ(StructuralDifference(module, again), "");
}
void ExpectSameExpr(const std::string& text) {
  std::string whole = kVersion + text;
  Expr expr = ParseExpr(whole);
  EXPECT_EQ(AsText(expr), whole);
  EXPECT_EQ(StructuralDifference(ParseExpr(AsText(expr)), expr, true), "");
}

TEST_F(Text, ProgramsOfTheOriginalRoundTrip) {
  std::ifstream file(TREADLE_SOURCE_DIR "/tests/data/golden/fusion_and_plan.json");
  const Json programs = Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_EQ(programs.size(), 24u);
  for (const Json& program : programs) ExpectSameText(program["text"].get<std::string>(), true);
}

TEST_F(Text, SharedOperandIsPrintedOnce) {
  Expr x = Constant(NDArray::FromVector<float>({1}, {}, DataType::Float(32)));
  Expr one = Call(Op::Get("nn.relu"), {x});
  Expr sum = InferType(Call(Op::Get("add"), {one, one}));
  EXPECT_THAT(AsText(sum), HasSubstr("add(%0, %0) /* ty=float32 */"));
}

TEST_F(Text, CalleeComesAfterItsArguments) {
  Var x("x"), y("y");
  Expr inner = Call(Function({y}, y), {Constant(NDArray::FromVector<int32_t>({1}, {}, DataType::Int(32)))});
  std::string text = AsText(Call(Function({x}, x), {inner}));
  EXPECT_EQ(text, std::string(kVersion) + "%0 = fn (%y) {\n  %y\n};\n%1 = %0(1);\n%2 = fn (%x) {\n  %x\n};\n%2(%1)");
}

TEST_F(Text, LetValueIsInlinedUnlessShared) {
  Constant zero(NDArray::FromVector<int32_t>({0}, {}, DataType::Int(32)));
  Tuple pair({zero, zero});
  Var x("x");
  EXPECT_EQ(AsText(Let(x, pair, pair)), std::string(kVersion) + "%0 = (0, 0);\nlet %x = %0;\n%0");
  EXPECT_EQ(AsText(Let(x, pair, x)), std::string(kVersion) + "let %x = (0, 0);\n%x");
}

TEST_F(Text, AllNodeKindsRoundTrip) {
  ExpectSameText(R"(#[version = "0.0.5"]
type List[A] {
  Cons(A, List[A]),
  Nil,
}

extern type Handle

def @main[B](%x: B, %l: List[B], %f: fn (B) -> B, %r: ref(B), Inline=1, name="a \"b\"\n") -> List[B] {
  %0 = %f(%x);
  let %y = ref_write(%r, %0);
  %1 = (%x,);
  %2 = ();
  %3 = (%1, %2);
  let %z: B = %3.0;
  %5 = if (True) {
    %4 = fn (%q: B) -> B {
      %q
    };
    %4(%x)
  } else {
    %x
  };
  %9 = match (%l) {
    Cons(%h, _) => {
      %6 = ref_read(%r);
      %7 = Nil;
      %8 = Cons(%6, %7);
      Cons(%h, %8)
    },
    Nil => {
      let %c = ref(%z);
      Nil
    },
  };
  Cons(%5, %9)
}

def @g(%x1: Tensor[(n, ?, (n + 1)), float32], %t: (float32, ())) -> _ {
  match? (%t) {
    (%a, ()) => {
      %a
    },
  }
}
)");
}

TEST_F(Text, LiteralsKeepTypeAndBits) {
  ExpectSameExpr(
      "(3, -3, 5000000000i64, 1f, -0f, 0.12345679f, 1e-05f, 1e+20f64, 0.1f64, 0.5f16, 2bf16, 1i8, 255u8, "
      "18446744073709551615u64, True, False, inff, -inff64)");
}

TEST_F(Text, TensorsStandInTheMetadata) {
  Constant c(NDArray::FromVector<float>({1.5f, -0.0f, 3e-40f}, {3}, DataType::Float(32)));
  Expr expr = Tuple({c, c});
  std::string text = AsText(expr);
  EXPECT_THAT(text, HasSubstr("(meta[relay.Constant][0], meta[relay.Constant][0])"));
  EXPECT_THAT(text, HasSubstr("#[metadata]"));
  Expr again = ParseExpr(text);
  EXPECT_TRUE(StructuralEqual(again, expr));
  EXPECT_THAT(AsText(expr, false), HasSubstr("left out"));
}

TEST_F(Text, NamesOfAnyKindRoundTrip) {
  ExpectSameText(
      "#[version = \"0.0.5\"]\n"
      "def @main(%layer.0.weight: float32, %meta_x: float32, %inff_y, %\"a b:0\", %v_u) {\n"
      "  (%layer.0.weight, %meta_x, %inff_y, %\"a b:0\", %v_u)\n}\n");
}

TEST_F(Text, EqualNamesGetNumbers) {
  Var a("p0"), b("p0"), c("p0");
  EXPECT_EQ(AsText(Function({a, b, c}, Tuple({a, b, c}))),
            std::string(kVersion) + "fn (%p0, %p01, %p02) {\n  (%p0, %p01, %p02)\n}");
}

TEST_F(Text, FreeVariablesAreDeclared) {
  Var x("x", TensorType(std::vector<int64_t>{2}, DataType::Float(32)));
  std::string text = AsText(Call(Op::Get("nn.relu"), {x}));
  EXPECT_EQ(text, std::string(kVersion) + "free_var %x: Tensor[(2), float32];\nnn.relu(%x)");
  EXPECT_TRUE(StructuralEqual(ParseExpr(text), Call(Op::Get("nn.relu"), {x}), true));
}

TEST_F(Text, OperatorsHavePrecedence) {
  Expr expr = ParseExpr("free_var %x; free_var %y; %x -1 + %y * 2 < %x == True");
  EXPECT_EQ(PrettyPrint(expr),
            "free_var %x;\nfree_var %y;\n%0 = subtract(%x, 1);\n%1 = multiply(%y, 2);\n%2 = add(%0, %1);\n"
            "%3 = less(%2, %x);\nequal(%3, True)");
}

TEST_F(Text, CommentsNestAndCarriageReturnsAreSpace) {
  Expr expr = ParseExpr("/* a /* b */ c */ add(1, // one\r\n 2)");
  EXPECT_EQ(PrettyPrint(expr), "add(1, 2)");
}

TEST_F(Text, NamesOfImportedNodesAreKept) {
  ExpectSameText("#[version = \"0.0.5\"]\ndef @main(%x) {\n  nn.relu(%x) /* conv1/Relu */\n}\n");
}

TEST_F(Text, ErrorsShowThePlace) {
  auto message = [](const std::string& text) -> std::string {
    try {
      ParseModule(text, "a.relay");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message("def @main(%x) {\n  add(%x, %y)\n}"),
            "error: unknown variable %y\n --> a.relay:2:11\n   |\n 2 |   add(%x, %y)\n   |           ^^");
  EXPECT_THAT(message("def @main(%x) {\n  nn.relo(%x)\n}"), HasSubstr("did you mean 'nn.relu'"));
  EXPECT_THAT(message("def @main(%x) { nn.softmax(%x, axs=1) }"), HasSubstr("nn.softmax has no attribute 'axs'"));
  EXPECT_THAT(message("def @main(%x) { @f(%x) }"), HasSubstr("no function @f"));
  EXPECT_THAT(message("def @main(%x: T) { %x }"), HasSubstr("unknown type T"));
  EXPECT_THAT(message("def @main("), HasSubstr("the end of the text"));
  EXPECT_THAT(message("\"abc"), HasSubstr("string doesn't end"));
  EXPECT_THAT(message("/* abc"), HasSubstr("comment doesn't end"));
  EXPECT_THAT(message("def @main(%x) { meta[relay.Constant][0] }"), HasSubstr("no metadata section"));
}

TEST_F(Text, ChainOf200000OperatorsRoundTrips) {
  std::string text = "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(4), float32]) {\n";
  text += "  %0 = nn.relu(%x);\n";
  for (int i = 1; i < 200000; ++i) {
    text += "  %" + std::to_string(i) + " = nn.relu(%" + std::to_string(i - 1) + ");\n";
  }
  text += "  nn.relu(%199999)\n}\n";
  EXPECT_EQ(AsText(ParseModule(text, "test", false)), text);
}

TEST_F(Text, DeepNestingRoundTrips) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "nn.relu(";
  text += "1f" + std::string(100000, ')');
  Expr expr = ParseExpr(text);
  EXPECT_TRUE(StructuralEqual(ParseExpr(AsText(expr)), expr));
  std::string type = std::string(50000, '(') + "float32";
  for (int i = 0; i < 50000; ++i) type += ",)";
  EXPECT_EQ(PrettyPrint(ParseType(type)), type);
}

TEST_F(Text, LetAsTheValueOfLet) {
  Constant zero(NDArray::FromVector<int32_t>({0}, {}, DataType::Int(32)));
  Var x("x"), y("y");
  std::string text = AsText(Let(x, Let(y, zero, y), x));
  EXPECT_EQ(text, std::string(kVersion) + "%0 = (\n  let %y = 0;\n  %y\n);\nlet %x = %0;\n%x");
  EXPECT_EQ(AsText(ParseExpr(text)), text);
}

TEST_F(Text, NestingIsLimited) {
  auto error = [](const std::string& text) -> std::string {
    try {
      ParseModule(text, "t");
    } catch (const ModelFormatError& e) {
      return e.what();
    }
    return "";
  };
  auto repeat = [](const std::string& part, int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += part;
    return text;
  };
  EXPECT_THAT(error("def @main() { " + repeat("(", 300000)), HasSubstr("nest deeper"));
  EXPECT_THAT(error("def @main() { " + repeat("fn () {", 100000)), HasSubstr("nest deeper"));
  EXPECT_THAT(error("def @main() { " + repeat("if (True) {", 100000)), HasSubstr("nest deeper"));
  EXPECT_THAT(error("def @main(%x: " + repeat("ref(", 300000)), HasSubstr("nest deeper"));
  EXPECT_THAT(error("def @main(%x: " + repeat("fn () -> ", 300000)), HasSubstr("nest deeper"));
  EXPECT_THAT(error("def @main(%x: Tensor[(" + repeat("(", 300000)), HasSubstr("nest deeper"));
  EXPECT_THAT(error("def @main(k=" + repeat("[", 300000)), HasSubstr("nest deeper"));
  EXPECT_EQ(error("def @main() { " + repeat("(", 1000) + "1" + repeat(")", 1000) + " }"), "");
}

}  // namespace
}  // namespace treadle::relay
