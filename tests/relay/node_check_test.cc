// SPDX-License-Identifier: Apache-2.0
// JSON that holds nodes of other classes than its fields expect, or none, is refused before anything uses it.
#include "relay/node_check.h"

#include <gmock/gmock.h>

#include "passes/pass_test.h"
#include "treadle/ir/serialization.h"

namespace treadle::testing {
namespace {

using ::testing::HasSubstr;

/// What is wrong with a list of nodes, number 0 being null and 1 the root.
std::string Problem(const std::string& nodes) {
  ops::RegisterAllOps();
  relay::RegisterNodeTypes();
  try {
    relay::CheckNodes(LoadJson("{\"root\": 1, \"nodes\": [{\"type_key\": \"\"}, " + nodes + "]}"));
  } catch (const ModelFormatError& e) {
    return e.what();
  }
  return "";
}

TEST(NodeCheck, AcceptsWhatWasSaved) {
  IRModule module = Parse(R"(
type Box[A] { Box(A) }
def @main(%x: Tensor[(2, n), float32], %b: Box[int32]) {
  let %r = ref(%x);
  (nn.pad(ref_read(%r), 0f, pad_width=[[0, 0], [1, 1]]), match (%b) { Box(%v) => if (%v == 1) { %v } else { 2 } })
})");
  ObjectRef again = LoadJson(SaveJson(module));
  EXPECT_NO_THROW(relay::CheckNodes(again));
  EXPECT_EQ(StructuralDifference(module, again), "");
}

TEST(NodeCheck, RefusesOtherClasses) {
  EXPECT_THAT(
      Problem(R"({"type_key": "relay.Call", "attrs": {"op": "2"}}, {"type_key": "runtime.String", "repr_str": "x"})"),
      HasSubstr("relay.Call.op isn't of class"));
  EXPECT_THAT(Problem(R"({"type_key": "relay.Tuple", "attrs": {"fields": "2"}}, {"type_key": "Array", "data": [3]},
                         {"type_key": "runtime.String", "repr_str": "x"})"),
              HasSubstr("relay.Tuple.fields isn't a list of"));
  EXPECT_THAT(
      Problem(
          R"({"type_key": "relay.Call", "attrs": {"op": "2", "attrs": "3"}}, {"type_key": "Op", "repr_str": "nn.conv2d"},
                         {"type_key": "relay.attrs.TransposeAttrs"})"),
      ::testing::AnyOf(HasSubstr("has attributes of class"), HasSubstr("unknown class")));
}

TEST(NodeCheck, RefusesMissingParts) {
  EXPECT_THAT(Problem(R"({"type_key": "relay.If"})"), HasSubstr("relay.If.cond isn't of class"));
  EXPECT_THAT(Problem(R"({"type_key": "relay.Var"})"), HasSubstr("relay.Var.vid isn't of class"));
  EXPECT_THAT(Problem(R"({"type_key": "Array", "data": [2]}, {"type_key": "relay.RefType"})"),
              HasSubstr("relay.RefType.value"));
}

TEST(NodeCheck, RefusesCyclesAndUnknownClasses) {
  EXPECT_THAT(Problem(R"({"type_key": "Array", "data": [1]})"), HasSubstr("cycle"));
  EXPECT_THAT(Problem(R"({"type_key": "no.such.Class"})"), HasSubstr("unknown class"));
  EXPECT_THAT(Problem(R"({"type_key": "TypeConstraint"})"), HasSubstr("class"));
}

}  // namespace
}  // namespace treadle::testing
