// SPDX-License-Identifier: Apache-2.0
// Activations that models write as several operators.
#include "passes/recognize_activations.h"

#include "passes/pass_test.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

void ExpectActivation(const std::string& body, const std::string& expected) {
  const std::string head = "fn (%x: Tensor[(2, 8), float32]) { ";
  ExpectPass(transform::RecognizeActivations(), head + body + " }", head + expected + " }");
}

TEST(RecognizeActivations, MishOfBothFormsOfSoftplus) {
  ExpectActivation("multiply(%x, tanh(log(add(exp(%x), 1f))))", "nn.mish(%x)");
  ExpectActivation("multiply(tanh(add(maximum(%x, 0f), log(add(1f, exp(negative(abs(%x))))))), %x)", "nn.mish(%x)");
}

TEST(RecognizeActivations, MishOfSomethingElseStays) {
  const char* other = "multiply(nn.relu(%x), tanh(log(add(exp(%x), 1f))))";
  ExpectActivation(other, other);
}

TEST(RecognizeActivations, GeluOfModelsIn16Bits) {
  const std::string head = "fn (%x: Tensor[(2, 8), float16]) { ", sum = "add(erf(divide(%x, 1.41406f16)), 1f16)";
  ExpectPass(transform::RecognizeActivations(), head + "multiply(multiply(%x, " + sum + "), 0.5f16) }",
             head + "nn.gelu(%x) }");
}

/// As Gelu is imported: kept from infinity, beyond which the single operator is 0 itself.
TEST(RecognizeActivations, GeluWithALeastOperand) {
  const std::string least = "maximum(%x, -3.40282347e+38f)", head = "fn (%x: Tensor[(2, 8), float32]) { ";
  ExpectPass(transform::RecognizeActivations(),
             head + "%0 = " + least + "; multiply(multiply(0.5f, %0), add(1f, erf(multiply(%0, 0.707106769f)))) }",
             head + "nn.gelu(%x) }");
}

TEST(RecognizeActivations, GeluHoweverFactorsAreGrouped) {
  const std::string sum = "add(erf(divide(%x, 1.41421354f)), 1f)";
  ExpectActivation("multiply(multiply(%x, " + sum + "), 0.5f)", "nn.gelu(%x)");
  ExpectActivation("multiply(multiply(0.5f, %x), " + sum + ")", "nn.gelu(%x)");
  ExpectActivation("multiply(%x, multiply(" + sum + ", 0.5f))", "nn.gelu(%x)");
  ExpectActivation("multiply(multiply(%x, 0.5f), add(1f, erf(multiply(%x, 0.707106769f))))", "nn.gelu(%x)");
}

/// sigmoid(-100) is 0 in float32, its logarithm -100.
TEST(RecognizeActivations, LogarithmOfASigmoidNeedsNone) {
  ExpectActivation("log(sigmoid(%x))", "subtract(minimum(%x, 0f), log(add(exp(negative(abs(%x))), 1f)))");
}

TEST(RecognizeActivations, NumbersThatMakeAVectorOfAScalarStay) {
  const std::string head = "fn (%x: float32, %one: Tensor[(1), float32]) { ";
  const std::string text = head + "multiply(multiply(%x, add(erf(divide(%x, 1.41421354f)), %one)), 0.5f) }";
  IRModule module = Parse(text);
  const Constant one(runtime::NDArray::FromVector(std::vector<float>{1}, {1}, DataType::Float(32)));
  const Function func = Downcast<Function>(module->Lookup("main"));
  const Function bound = Function({func->params[0]}, Bind(func->body, {{func->params[1], one}}), Type());
  const IRModule after = transform::RecognizeActivations()(IRModule::FromExpr(bound));
  EXPECT_EQ(Show(after).find("nn.gelu"), std::string::npos) << Show(after);
}

TEST(RecognizeActivations, OtherErrorFunctionsStay) {
  const char* scaled = "multiply(multiply(%x, 0.5f), add(1f, erf(multiply(%x, 0.5f))))";
  ExpectActivation(scaled, scaled);
  const char* whole = "multiply(%x, add(1f, erf(multiply(%x, 0.707106769f))))";
  ExpectActivation(whole, whole);
}

TEST(RecognizeActivations, HalfOfOnePlusTanhIsASigmoid) {
  ExpectActivation("multiply(multiply(%x, 0.5f), add(tanh(nn.relu(%x)), 1f))",
                   "multiply(%x, sigmoid(multiply(nn.relu(%x), 2f)))");
}

}  // namespace
}  // namespace treadle::relay
