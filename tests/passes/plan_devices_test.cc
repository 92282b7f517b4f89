// SPDX-License-Identifier: Apache-2.0
// PlanDevices: devices of functions, copies where values move, annotations where they aren't where their surroundings
// are. The default device is 2.
#include <gmock/gmock.h>

#include "passes/pass_test.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

const std::string kParams =
    "fn (%a: Tensor[(5, 7), float32], %b: Tensor[(5, 7), float32], %c: Tensor[(5, 7), float32], "
    "%d: Tensor[(5, 7), float32]";

void ExpectPlan(const std::string& before, const std::string& devices, const std::string& after) {
  std::string planned = kParams + ", " + devices + ") " + after;
  ExpectPass(transform::PlanDevices(2), kParams + ") " + before, planned);
  ExpectPass(transform::PlanDevices(2), planned, planned);
}

TEST(PlanDevices, DefaultsWhereNothingIsSaid) {
  ExpectPlan("{ %0 = add(%a, %b); %1 = add(%c, %d); subtract(%0, %1) }",
             "param_device_types=[2, 2, 2, 2], result_device_type=2",
             "{ %0 = add(%a, %b); %1 = add(%c, %d); subtract(%0, %1) }");
}

TEST(PlanDevices, AnAnnotatedOperandIsCopied) {
  ExpectPlan(R"({
  %0 = add(%a, %b);
  %1 = on_device(%0, device_type=1);
  %2 = add(%c, %d);
  subtract(%1, %2)
})",
             "param_device_types=[1, 1, 2, 2], result_device_type=2", R"({
  %0 = add(%a, %b);
  %1 = on_device(%0, device_type=1, is_fixed=True);
  %2 = device_copy(%1, src_dev_type=1, dst_dev_type=2);
  %3 = add(%c, %d);
  subtract(%2, %3)
})");
}

TEST(PlanDevices, ACopyThatIsThereSaysTheSame) {
  ExpectPlan(R"({
  %0 = add(%a, %b);
  %1 = device_copy(%0, src_dev_type=1, dst_dev_type=2);
  %2 = add(%c, %d);
  subtract(%1, %2)
})",
             "param_device_types=[1, 1, 2, 2], result_device_type=2", R"({
  %0 = add(%a, %b);
  %1 = on_device(%0, device_type=1, is_fixed=True);
  %2 = device_copy(%1, src_dev_type=1, dst_dev_type=2);
  %3 = add(%c, %d);
  subtract(%2, %3)
})");
}

TEST(PlanDevices, BothOperandsAreCopied) {
  ExpectPlan(R"({
  %0 = add(%a, %b);
  %1 = on_device(%0, device_type=1);
  %2 = add(%c, %d);
  %3 = on_device(%2, device_type=1);
  subtract(%1, %3)
})",
             "param_device_types=[1, 1, 1, 1], result_device_type=2", R"({
  %0 = add(%a, %b);
  %1 = on_device(%0, device_type=1, is_fixed=True);
  %2 = device_copy(%1, src_dev_type=1, dst_dev_type=2);
  %3 = add(%c, %d);
  %4 = on_device(%3, device_type=1, is_fixed=True);
  %5 = device_copy(%4, src_dev_type=1, dst_dev_type=2);
  subtract(%2, %5)
})");
}

TEST(PlanDevices, EachAnnotationOfASharedValueMakesACopy) {
  IRModule result = transform::PlanDevices(2)(Parse(R"(
fn (%a: Tensor[(5, 7), float32], %b: Tensor[(5, 7), float32]) {
  %0 = add(%a, %b);
  %1 = on_device(%0, device_type=1);
  %2 = on_device(%0, device_type=1);
  subtract(%1, %2)
})"));
  std::string text = Show(result);
  EXPECT_EQ(text.find("add("), text.rfind("add(")) << text;
  EXPECT_NE(text.find("device_copy"), text.rfind("device_copy")) << text;
}

TEST(PlanDevices, ABoundValueIsWhereItsUseSays) {
  ExpectPlan(R"({
  let %l = add(%a, %b);
  let %r = add(%c, %d);
  subtract(on_device(%l, device_type=1), %r)
})",
             "param_device_types=[1, 1, 2, 2], result_device_type=2", R"({
  let %l = on_device(add(%a, %b), device_type=1, is_fixed=True);
  let %r = add(%c, %d);
  subtract(device_copy(%l, src_dev_type=1, dst_dev_type=2), %r)
})");
}

TEST(PlanDevices, ProjectionsAreAnnotatedInsteadOfTuples) {
  std::string text = Show(transform::PlanDevices(2)(Parse(R"(
fn (%a: Tensor[(4, 6), float32]) {
  %0 = split(%a, indices_or_sections=2);
  %1 = on_device(%0, device_type=1);
  add(%1.0, %1.1)
})")));
  EXPECT_THAT(text, HasSubstr("param_device_types=[1]")) << text;
  EXPECT_NE(text.find("device_copy"), text.rfind("device_copy")) << text;
}

TEST(PlanDevices, TheResultIsWhereItIsSaidToBe) {
  ExpectPass(transform::PlanDevices(2), "fn (%a: Tensor[(4), float32]) { on_device(exp(%a), device_type=1) }",
             "fn (%a: Tensor[(4), float32], param_device_types=[1], result_device_type=1) { exp(%a) }");
}

TEST(PlanDevices, ShapesAreOnTheCpuWhereverTheTensorIs) {
  std::string text = Show(transform::PlanDevices(2)(
      Parse("fn (%a: Tensor[(4, ?), float32]) { add(shape_of(on_device(exp(%a), device_type=3)), 1) }")));
  EXPECT_THAT(text, HasSubstr("param_device_types=[3], result_device_type=1")) << text;
}

TEST(PlanDevices, CallsOfFunctionsAgreeWithThem) {
  std::string text = Show(transform::PlanDevices(2)(Parse(R"(
def @f(%x: Tensor[(4), float32]) -> Tensor[(4), float32] { on_device(exp(%x), device_type=1) }
def @main(%a: Tensor[(4), float32]) -> Tensor[(4), float32] { add(@f(%a), %a) }
)")));
  EXPECT_THAT(text, HasSubstr("def @f(%x: Tensor[(4), float32], param_device_types=[1], result_device_type=1)"));
}

TEST(PlanDevices, ContradictionsAreErrors) {
  IRModule module = Parse(R"(
fn (%a: Tensor[(4), float32]) {
  %0 = exp(%a);
  add(on_device(%0, device_type=1, is_fixed=True), on_device(%0, device_type=3, is_fixed=True))
})");
  try {
    transform::PlanDevices(2)(module);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("device type"));
  }
}

}  // namespace
}  // namespace treadle::relay
