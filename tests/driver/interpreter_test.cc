// SPDX-License-Identifier: Apache-2.0
#include "treadle/driver/interpreter.h"

#include <gmock/gmock.h>

#include "tests_common/relay_eval.h"

namespace treadle::testing {
namespace {

using driver::Interpreter;
using driver::InterpreterLimits;
using ::testing::HasSubstr;

NDArray Int(int value) { return NDArray::FromVector<int32_t>({value}, {}, DataType::Int(32)); }
NDArray Floats(const std::vector<float>& values) {
  return NDArray::FromVector(values, {static_cast<int64_t>(values.size())}, DataType::Float(32));
}
int AsInt(const Value& value) { return Downcast<NDArray>(value).Data<int32_t>()[0]; }
float AsFloat(const Value& value, int i = 0) { return Downcast<NDArray>(value).Data<float>()[i]; }

IRModule Parse(const std::string& text) {
  driver::RegisterAll();
  return relay::ParseModuleInto(relay::Prelude(), "#[version = \"0.0.5\"]\n" + text);
}
Value Eval(const std::string& text, const std::vector<Value>& args = {}) { return EvalModule(Parse(text), args); }
/// The value of an expression.
Value EvalExpr(const std::string& text) { return Eval("def @main() { " + text + " }"); }

std::string ErrorOf(const std::string& text, const std::vector<Value>& args = {}) {
  try {
    Eval(text, args);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Interpreter, ComputesOperators) {
  Value y = Eval("def @main(%x: Tensor[(3), float32]) { nn.relu(%x * 2f - 1f) }", {Floats({0, 1, -3})});
  EXPECT_EQ(AsFloat(y, 0), 0);
  EXPECT_EQ(AsFloat(y, 1), 1);
}

TEST(Interpreter, TakesShapesFromTensors) {
  Value y = Eval("def @main(%x: Tensor[(?, 2), float32]) { sum(%x, axis=[0]) }",
                 {NDArray::FromVector<float>({1, 2, 3, 4, 5, 6}, {3, 2}, DataType::Float(32))});
  EXPECT_EQ(AsFloat(y, 0), 9);
  EXPECT_EQ(AsFloat(y, 1), 12);
}

TEST(Interpreter, Branches) {
  const char* text = "def @main(%x: int32) { if (%x > 0) { %x } else { negative(%x) } }";
  EXPECT_EQ(AsInt(Eval(text, {Int(-7)})), 7);
  EXPECT_EQ(AsInt(Eval(text, {Int(8)})), 8);
}

TEST(Interpreter, ComputesSharedValuesOnce) {
  EXPECT_EQ(AsInt(EvalExpr(R"(
    let %r = ref(0);
    %0 = ref_write(%r, ref_read(%r) + 1);
    %1 = (%0, %0);
    let %use = %1;
    ref_read(%r))")),
            1);
}

TEST(Interpreter, CallsRecursiveFunctions) {
  EXPECT_EQ(AsInt(Eval(R"(
    def @fact(%n: int32) -> int32 { if (%n == 0) { 1 } else { %n * @fact(%n - 1) } }
    def @main() { @fact(10) })")),
            3628800);
}

TEST(Interpreter, CallsRecursiveClosures) {
  EXPECT_EQ(AsInt(EvalExpr(R"(
    let %step = 3;
    let %count = fn (%n: int32) -> int32 { if (%n <= 0) { 0 } else { 1 + %count(%n - %step) } };
    %count(10))")),
            4);
}

TEST(Interpreter, CapturesThroughSeveralFunctions) {
  EXPECT_EQ(AsInt(EvalExpr(R"(
    let %a = 1;
    let %f = fn (%b: int32) { fn (%c: int32) { fn (%d: int32) { %a + %b * 10 + %c * 100 + %d * 1000 } } };
    let %g = %f(2);
    %g(3)(4))")),
            4321);
}

TEST(Interpreter, SharesValuesBetweenAFunctionAndItsSurroundings) {
  EXPECT_EQ(AsInt(EvalExpr(R"(
    %0 = ref(5);
    %1 = fn () { ref_write(%0, ref_read(%0) + 1) };
    let %f = %1;
    let %u = %f();
    let %v = %f();
    ref_read(%0))")),
            7);
}

TEST(Interpreter, MatchesData) {
  EXPECT_EQ(AsInt(EvalExpr("@sum(@map(fn (%x: int32) { %x * 2 }, Cons(1, Cons(2, Cons(3, Nil)))))")), 12);
  EXPECT_EQ(AsInt(EvalExpr("match ((1, Some(5))) { (%a, Some(%b)) => %a + %b, (%a, None) => %a, }")), 6);
  EXPECT_EQ(AsInt(EvalExpr("@length(@filter(fn (%x: int32) { %x > 1 }, Cons(1, Cons(2, Cons(3, Nil)))))")), 2);
}

TEST(Interpreter, ConstructorsAndOperatorsAreValues) {
  EXPECT_EQ(AsInt(EvalExpr("let %c = Some; match (%c(4)) { Some(%x) => %x, None => 0, }")), 4);
  EXPECT_EQ(AsInt(EvalExpr("@foldl(fn (%a: int32, %b: int32) { %a + %b }, 0, @rev(Cons(1, Cons(2, Nil))))")), 3);
}

TEST(Interpreter, GivesTuplesReferencesAndConstructors) {
  Value value = EvalExpr("(1, ref(2), Cons(3, Nil))");
  EXPECT_EQ(driver::DescribeValue(value), "(Tensor[(), int32], a reference, Cons(Tensor[(), int32], Nil))");
}

TEST(Interpreter, InvokesFunctionsThatItReturned) {
  Interpreter interpreter(Parse("def @main(%a: int32) { fn (%b: int32) { %a - %b } }"));
  EXPECT_EQ(AsInt(interpreter.Invoke(interpreter.Run("main", {Int(9)}), {Int(2)})), 7);
}

TEST(Interpreter, EvaluatesExpressionsInAModule) {
  Interpreter interpreter(Parse("def @twice(%a: int32) { %a + %a }"));
  EXPECT_EQ(AsInt(interpreter.Evaluate(
                relay::ParseExpr("@twice(@twice(3))", "text", Parse("def @twice(%a: int32) { %a + %a }")))),
            12);
}

TEST(Interpreter, FollowsDynamicShapes) {
  Value y = EvalExpr("arange(0, 5, 2, dtype=\"int32\")");
  EXPECT_EQ(Downcast<NDArray>(y).shape(), std::vector<int64_t>{3});
  y = Eval("def @main(%x: Tensor[(4), float32], %s: Tensor[(2), int64]) { dyn.reshape(%x, %s) }",
           {Floats({1, 2, 3, 4}), NDArray::FromVector<int64_t>({2, 2}, {2}, DataType::Int(64))});
  EXPECT_EQ(Downcast<NDArray>(y).shape(), (std::vector<int64_t>{2, 2}));
  y = Eval("def @main(%x: Tensor[(4), float32]) { argwhere(%x) }", {Floats({0, 2, 0, 4})});
  EXPECT_EQ(Downcast<NDArray>(y).shape(), (std::vector<int64_t>{2, 1}));
}

TEST(Interpreter, ComputesWhatInferenceSimplifies) {
  const char* text = R"(
    def @main(%x: Tensor[(1, 2), float32], %s: Tensor[(2), float32]) {
      %0 = nn.batch_norm(%x, %s, %s, %s, %s, epsilon=0f);
      (%0.0, %0.1, nn.dropout(%x).0)
    })";
  Value y = Eval(text, {NDArray::FromVector<float>({5, 5}, {1, 2}, DataType::Float(32)), Floats({4, 1})});
  const auto* tuple = y.as<driver::TupleValueNode>();
  EXPECT_FLOAT_EQ(AsFloat(tuple->fields[0], 0), 6);  // (5 - 4) / sqrt(4) * 4 + 4
  EXPECT_FLOAT_EQ(AsFloat(tuple->fields[1], 0), 4);
  EXPECT_FLOAT_EQ(AsFloat(tuple->fields[2], 0), 5);
}

TEST(Interpreter, RecursesDeeply) {
  const char* text = R"(
    def @count(%n: int32) -> int32 { if (%n == 0) { 0 } else { 1 + @count(%n - 1) } }
    def @main(%n: int32) { @count(%n) })";
  EXPECT_EQ(AsInt(Eval(text, {Int(200000)})), 200000);
}

TEST(Interpreter, ComputesLongChainsFromText) {
  constexpr int kLength = 200000;
  std::string text = "def @main(%x: Tensor[(2), float32]) {\n  %0 = nn.relu(%x);\n";
  for (int i = 1; i < kLength; ++i) text += StrCat("  %", i, " = nn.relu(%", i - 1, ");\n");
  EXPECT_EQ(AsFloat(Eval(text + StrCat("  %", kLength - 1, "\n}\n"), {Floats({-1, 2})}), 1), 2);
}

TEST(Interpreter, LoopsInConstantSpace) {
  IRModule module = Parse(R"(
    def @loop(%n: int32, %sum: int32) -> int32 { if (%n == 0) { %sum } else { @loop(%n - 1, %sum + 2) } }
    def @main(%n: int32) { @loop(%n, 0) })");
  Interpreter interpreter(module, {1 << 30, 10});
  EXPECT_EQ(AsInt(interpreter.Run("main", {Int(50000)})), 100000);
}

TEST(Interpreter, BuildsAndDropsLongLists) {
  const char* text = R"(
    def @list(%n: int32, %tail: List[int32]) -> List[int32] {
      if (%n == 0) { %tail } else { @list(%n - 1, Cons(%n, %tail)) }
    }
    def @main(%n: int32) { @length(@list(%n, Nil)) })";
  EXPECT_EQ(AsInt(Eval(text, {Int(200000)})), 200000);
}

TEST(Interpreter, SaysWhatGoesTooDeepOrTooLong) {
  IRModule module = Parse(R"(
    def @deep(%n: int32) -> int32 { 1 + @deep(%n) }
    def @long(%n: int32) -> int32 { @long(%n) })");
  Interpreter deep(module, {1 << 20, 1000});
  EXPECT_THAT([&] { deep.Run("deep", {Int(1)}); },
              ::testing::ThrowsMessage<RuntimeError>(HasSubstr("deeper than 1000")));
  EXPECT_THAT([&] { deep.Run("long", {Int(1)}); },
              ::testing::ThrowsMessage<RuntimeError>(HasSubstr("more than 1048576 steps")));
}

TEST(Interpreter, ReportsMistakesOfPrograms) {
  EXPECT_THAT(ErrorOf("def @main() { @hd(@tl(Cons(1, Nil))) }"), HasSubstr("no clause of match takes the value Nil"));
  EXPECT_THAT(ErrorOf("def @main(%x: Tensor[(2), float32]) { %x }", {Floats({1})}),
              HasSubstr("parameter %x has type Tensor[(2), float32] but gets shape (1,)"));
  EXPECT_THAT(ErrorOf("def @main(%x: float32) { %x }", {Int(1)}),
              HasSubstr("parameter %x has dtype float32 but gets int32"));
  EXPECT_THAT(ErrorOf("def @main(%x: float32) { %x }"), HasSubstr("takes 1 arguments but gets 0"));
}

}  // namespace
}  // namespace treadle::testing
