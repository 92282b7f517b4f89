// SPDX-License-Identifier: Apache-2.0
// Fused functions that differ in numbers only.
#include "passes/share_kernels.h"

#include "passes/pass_test.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

const std::string kHead = "fn (%x: Tensor[(8), float32]) -> Tensor[(8), float32] ";

std::string Scaled(const std::string& name, const std::string& param, const std::string& scale) {
  return name + " = fn (%" + param + ": Tensor[(8), float32], Primitive=1) -> Tensor[(8), float32] { multiply(add(%" +
         param + ", 1f), " + scale + ") };";
}

TEST(ShareKernels, NumbersThatDifferBecomeArguments) {
  const std::string general =
      " = fn (%p: Tensor[(8), float32], %q: float32, Primitive=1) -> Tensor[(8), float32] { multiply(add(%p, 1f), %q) "
      "};";
  ExpectPass(transform::ShareKernels(),
             kHead + "{" + Scaled("%0", "p", "2f") + " %1 = %0(%x); " + Scaled("%2", "p", "3f") + " %2(%1) }",
             kHead + "{ %0" + general + " %1 = %0(%x, 2f); %2" + general + " %2(%1, 3f) }");
}

TEST(ShareKernels, EqualKernelsStay) {
  const std::string text =
      kHead + "{" + Scaled("%0", "p", "2f") + " %1 = %0(%x); " + Scaled("%2", "p", "2f") + " %2(%1) }";
  ExpectPass(transform::ShareKernels(), text, text);
}

TEST(ShareKernels, OneArgumentForWhatIsEqualInEachKernel) {
  auto kernel = [](const std::string& name, const std::string& number) {
    return name + " = fn (%p: Tensor[(8), float32], Primitive=1) -> Tensor[(8), float32] { multiply(add(%p, " + number +
           "), " + number + ") };";
  };
  const std::string general =
      " = fn (%p: Tensor[(8), float32], %q: float32, Primitive=1) -> Tensor[(8), float32] { multiply(add(%p, %q), %q) "
      "};";
  ExpectPass(transform::ShareKernels(),
             kHead + "{" + kernel("%0", "2f") + "%1 = %0(%x);" + kernel("%2", "3f") + "%2(%1) }",
             kHead + "{ %0" + general + " %1 = %0(%x, 2f); %2" + general + " %2(%1, 3f) }");
}

TEST(ShareKernels, OperandsAreNoNumbers) {
  const std::string text =
      "fn (%x: Tensor[(8), float32], %s: float32) -> Tensor[(8), float32] {"
      " %0 = fn (%p: Tensor[(8), float32], %q: float32, Primitive=1) -> Tensor[(8), float32] {"
      " multiply(add(%p, %q), 2f) }; %1 = %0(%x, %s);" +
      Scaled("%2", "p", "3f") + " %2(%1) }";
  ExpectPass(transform::ShareKernels(), text, text);
}

/// A power with a known exponent is products, and division by a known integer a multiplication.
TEST(ShareKernels, NumbersThatSimplifyCodeStay) {
  auto kernel = [](const std::string& name, const std::string& exponent) {
    return name + " = fn (%p: Tensor[(8), float32], Primitive=1) -> Tensor[(8), float32] { power(%p, " + exponent +
           ") };";
  };
  const std::string text = kHead + "{" + kernel("%0", "2f") + "%1 = %0(%x);" + kernel("%2", "3f") + "%2(%1) }";
  ExpectPass(transform::ShareKernels(), text, text);
}

TEST(ShareKernels, BoundsOfRoundingBecomeArguments) {
  auto kernel = [](const std::string& name, const std::string& low, const std::string& high, const std::string& by) {
    return name + " = fn (%p: Tensor[(8), float32], Primitive=1) -> Tensor[(8), int32] { qnn.contrib_round_clip(%p, " +
           "a_min=" + low + ", a_max=" + high + ", divisor=" + by + ") };";
  };
  const std::string head = "fn (%x: Tensor[(8), float32]) ";
  const std::string general =
      " = fn (%p: Tensor[(8), float32], %d: float32, %l: float32, Primitive=1) -> Tensor[(8), int32] { "
      "qnn.contrib_round_clamp(qnn.contrib_divide_by_scale(%p, %d), %l, 255f) };";
  const IRModule result =
      transform::ShareKernels()(Parse(head + "{" + kernel("%0", "-1f", "255f", "2f") + "%1 = %0(%x);" +
                                      kernel("%2", "-3f", "255f", "0.5f") + "%3 = %2(%x); (%1, %3) }"));
  const std::vector<std::string> expected(2, "qnn.contrib_divide_by_scale qnn.contrib_round_clamp/3");
  EXPECT_EQ(Groups(result), expected) << Show(result);
}

TEST(ShareKernels, TheLimitOfArgumentsHolds) {
  const std::string text =
      kHead + "{" + Scaled("%0", "p", "2f") + " %1 = %0(%x); " + Scaled("%2", "p", "3f") + " %2(%1) }";
  relay::RegisterPasses();  // and their options
  PassContext context = PassContext::Create();
  context.CopyOnWrite()->config.Set(kFuseMaxArgs, IntImm(DataType::Int(64), 2));
  PassContext::Scope scope(context);
  ExpectPass(transform::ShareKernels(), text, text);
}

}  // namespace
}  // namespace treadle::relay
