// SPDX-License-Identifier: Apache-2.0
// DynamicToStatic: each dyn. operator whose operands for shapes are constants.
#include "passes/pass_test.h"
#include "tests_common/relay_eval.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

/// A vector of int64 in text.
std::string Vector(const std::vector<int>& values) {
  std::string text = "concatenate((";
  for (int value : values) text += "reshape(" + std::to_string(value) + "i64, newshape=[1]), ";
  return text.substr(0, text.size() - (values.size() > 1 ? 2 : 1)) + "))";
}

/// `call` of %x, a tensor of (1, 3, 4, 4), has the static type `type` afterwards, the same numbers and no dyn.
/// operator.
void ExpectStatic(const std::string& call, const std::string& type) {
  driver::RegisterAll();
  SCOPED_TRACE(call);
  IRModule before = Parse("fn (%x: Tensor[(1, 3, 4, 4), float32], %i: Tensor[(3), int32]) { " + call + " }");
  IRModule after = transform::DynamicToStatic()(before);
  std::string text = Show(after);
  EXPECT_EQ(text.find("dyn."), std::string::npos) << text;
  Type found = Downcast<Function>(after->Lookup("main"))->body->checked_type();
  EXPECT_TRUE(StructuralEqual(found, ParseType(type))) << PrettyPrint(found);
  ExpectSameResult(before, after);
}

TEST(DynamicToStatic, Shapes) {
  ExpectStatic("dyn.reshape(%x, " + Vector({3, 16}) + ")", "Tensor[(3, 16), float32]");
  ExpectStatic("dyn.squeeze(%x, " + Vector({0}) + ")", "Tensor[(3, 4, 4), float32]");
  ExpectStatic("dyn.tile(%x, " + Vector({2, 1, 1, 1}) + ")", "Tensor[(2, 3, 4, 4), float32]");
  ExpectStatic("dyn.broadcast_to(%x, " + Vector({2, 3, 4, 4}) + ")", "Tensor[(2, 3, 4, 4), float32]");
}

TEST(DynamicToStatic, Fills) {
  ExpectStatic("dyn.zeros(" + Vector({2, 3}) + ", dtype=\"float32\")", "Tensor[(2, 3), float32]");
  ExpectStatic("dyn.ones(" + Vector({2, 3}) + ", dtype=\"float32\")", "Tensor[(2, 3), float32]");
  ExpectStatic("dyn.full(2f, " + Vector({2, 3}) + ")", "Tensor[(2, 3), float32]");
  ExpectStatic("dyn.one_hot(%i, 1f, 0f, 5i64, dtype=\"float32\")", "Tensor[(3, 5), float32]");
}

TEST(DynamicToStatic, SlicesAndBorders) {
  ExpectStatic(
      "dyn.strided_slice(%x, " + Vector({0, 1, 0, 0}) + ", " + Vector({1, 3, 4, 2}) + ", " + Vector({1, 1, 2, 1}) + ")",
      "Tensor[(1, 2, 2, 2), float32]");
  ExpectStatic("dyn.nn.pad(%x, reshape(" + Vector({0, 0, 0, 0, 1, 1, 0, 2}) + ", newshape=[4, 2]), 1f)",
               "Tensor[(1, 3, 6, 6), float32]");
  ExpectStatic("dyn.topk(%x, 2i64, ret_type=\"values\")", "Tensor[(1, 3, 4, 2), float32]");
}

TEST(DynamicToStatic, Pictures) {
  ExpectStatic("dyn.image.resize2d(%x, " + Vector({8, 6}) + ", cast(" + Vector({0, 0, 0, 0}) + ", dtype=\"float32\"))",
               "Tensor[(1, 3, 8, 6), float32]");
  ExpectStatic("dyn.nn.upsampling(%x, 2f, 2f)", "Tensor[(1, 3, 8, 8), float32]");
}

TEST(DynamicToStatic, AShapeThatFollowsFromAnother) {
  ExpectStatic("dyn.reshape(exp(dyn.reshape(%x, " + Vector({3, 16}) + ")), shape_of(dyn.ones(" + Vector({6, 8}) +
                   ", dtype=\"float32\")))",
               "Tensor[(6, 8), float32]");
}

TEST(DynamicToStatic, LeavesWhatIsComputed) {
  IRModule result = transform::DynamicToStatic()(
      Parse("fn (%x: Tensor[(4), float32], %s: Tensor[(2), int64]) { dyn.reshape(%x, %s) }"));
  EXPECT_NE(Show(result).find("dyn.reshape"), std::string::npos);
}

}  // namespace
}  // namespace treadle::relay
