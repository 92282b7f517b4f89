// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "treadle/ir/structural.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TypeInfer : public testing::Test {
 protected:
  static void SetUpTestSuite() { ops::RegisterAllOps(); }
};

/// The inferred result type of main.
std::string ResultOf(const std::string& text) {
  return PrettyPrint(Downcast<Function>(ParseModule(text)->Lookup("main"))->ret_type);
}
std::string ErrorOf(const std::string& text) {
  try {
    ParseModule(text, "t.relay");
  } catch (const TypeInferError& error) {
    return error.what();
  }
  return "no error";
}

const char kList[] = "type List[A] {\n  Cons(A, List[A]),\n  Nil,\n}\n";

TEST_F(TypeInfer, ShapesBroadcastFromTheRight) {
  EXPECT_EQ(ResultOf("def @main(%x: Tensor[(10, 4), float32], %y: Tensor[(5, 10, 1), float32]) { add(%x, %y) }"),
            "Tensor[(5, 10, 4), float32]");
  EXPECT_EQ(ResultOf("def @main(%x: Tensor[(10, 4), float32], %y: Tensor[(5, 10, 1), float32]) { less(%x, %y) }"),
            "Tensor[(5, 10, 4), bool]");
  EXPECT_EQ(ResultOf("def @main(%x: Tensor[(?, 4), float32], %y: Tensor[(3, 1), float32]) { add(%x, %y) }"),
            "Tensor[(3, 4), float32]");
}

TEST_F(TypeInfer, SymbolicDimensionsStay) {
  EXPECT_EQ(ResultOf("def @main(%x: Tensor[(n, 4), float32]) { add(nn.relu(%x), %x) }"), "Tensor[(n, 4), float32]");
}

TEST_F(TypeInfer, GlobalFunctionsArePolymorphicInTheirDimensions) {
  EXPECT_EQ(ResultOf("def @f(%x: Tensor[(n, 4), float32]) -> Tensor[(n, 4), float32] { nn.relu(%x) }\n"
                     "def @main(%a: Tensor[(2, 4), float32], %b: Tensor[(3, 4), float32]) { (@f(%a), @f(%b)) }"),
            "(Tensor[(2, 4), float32], Tensor[(3, 4), float32])");
}

TEST_F(TypeInfer, FunctionsWithoutAnnotationsAreInferredFirst) {
  EXPECT_EQ(ResultOf("def @main(%x: Tensor[(2), float32]) { @f(%x) }\n"
                     "def @f(%y: Tensor[(2), float32]) { cast(%y, dtype=\"int8\") }"),
            "Tensor[(2), int8]");
}

TEST_F(TypeInfer, ParametersAreInferredFromUse) {
  EXPECT_EQ(ResultOf("def @main(%x: float32) { let %f = fn (%y) { add(%y, 1f) }; %f(%x) }"), "float32");
}

TEST_F(TypeInfer, PolymorphicFunctionsAreInstantiatedPerCall) {
  EXPECT_EQ(ResultOf("def @id[A](%x: A) -> A { %x }\ndef @main(%x: float32) { (@id(%x), @id((%x, 1))) }"),
            "(float32, (float32, int32))");
}

TEST_F(TypeInfer, RecursionNeedsAnnotations) {
  const std::string body = " { if (True) { %x } else { @f(%x) } }\ndef @main(%x: float32) { @f(%x) }";
  EXPECT_EQ(ResultOf("def @f(%x: float32) -> float32" + body), "float32");
}

TEST_F(TypeInfer, DataTypesMatchAndRefs) {
  EXPECT_EQ(ResultOf(std::string(kList) + "def @main(%l: List[float32]) {\n"
                                          "  match (%l) { Cons(%h, _) => (%h, ref(%h)), Nil => (0f, ref(1f)) } }"),
            "(float32, ref(float32))");
  EXPECT_EQ(ResultOf(std::string(kList) + "def @main() { Cons(1, Nil) }"), "List[int32]");
}

TEST_F(TypeInfer, MissingCasesAreListed) {
  EXPECT_THAT(ErrorOf(std::string(kList) + "def @main(%l: List[float32]) { match (%l) { Cons(_, Cons(_, _)) => 1 } }"),
              AllOf(HasSubstr("Cons(_, Nil)"), HasSubstr("Nil")));
  EXPECT_EQ(ResultOf(std::string(kList) + "def @main(%l: List[float32]) { match? (%l) { Nil => 1 } }"), "int32");
}

TEST_F(TypeInfer, SeveralErrorsAreReportedWithTheirPlaces) {
  std::string message = ErrorOf(
      "def @main(%x: Tensor[(2), float32], %y: Tensor[(3), float32]) {\n"
      "  %0 = add(%x, %y);\n"
      "  %1 = %x.1;\n"
      "  (%0, %1)\n}");
  EXPECT_THAT(message, AllOf(HasSubstr("t.relay:2:8"), HasSubstr("t.relay:3:8"), HasSubstr("^^^")));
}

TEST_F(TypeInfer, MismatchesShowBothTypes) {
  EXPECT_THAT(
      ErrorOf("def @f(%x: Tensor[(2), float32]) -> float32 { 1f }\n"
              "def @main(%x: Tensor[(3), float32]) { @f(%x) }"),
      AllOf(HasSubstr("Tensor[(2), float32]"), HasSubstr("Tensor[(3), float32]"), HasSubstr("dimension 0: 2 vs 3")));
  EXPECT_THAT(ErrorOf("def @main(%x: float32) { if (%x) { 1 } else { 2 } }"), HasSubstr("condition of if"));
}

TEST_F(TypeInfer, TypesDoNotContainThemselves) {
  EXPECT_THAT(ErrorOf("def @main() { fn (%f) { %f(%f) } }"), HasSubstr("contain itself"));
}

TEST_F(TypeInfer, WhatStaysUnknownIsAnError) {
  EXPECT_THAT(ErrorOf("def @main() { fn (%x) { %x } }"), HasSubstr("unable to infer a type"));
}

TEST_F(TypeInfer, TypedModuleIsReturnedAsItIs) {
  IRModule module = ParseModule("def @main(%x: Tensor[(2), float32]) { add(nn.relu(%x), 1f) }");
  EXPECT_TRUE(InferTypes(module).same_as(module));
}

TEST_F(TypeInfer, PreludeIsTypedAndRoundTrips) {
  IRModule prelude = Prelude();
  IRModule again = ParseModule(AsText(prelude));
  EXPECT_EQ(AsText(again), AsText(prelude));
  IRModule user = ParseModuleInto(prelude, "def @main() { @length(Cons(1f, Nil)) }");
  EXPECT_EQ(PrettyPrint(Downcast<Function>(user->Lookup("main"))->ret_type), "int32");
}

}  // namespace
}  // namespace treadle::relay
