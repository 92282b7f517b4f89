// SPDX-License-Identifier: Apache-2.0
// The skeleton of a target is one, and refuses with a reason.
#include <gmock/gmock.h>

#include "treadle/base/error.h"
#include "treadle/driver/build_module.h"
#include "treadle/targets/target_spec.h"
#include "treadle/te/tensor.h"

namespace treadle::targets {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

IRModule Copy() {
  te::Tensor a = te::Placeholder({PrimExpr(4)}, DataType::Float(32), "A");
  te::Tensor b = te::Compute({PrimExpr(4)}, [&](const Array<tir::Var>& i) { return a(i[0]); }, "B");
  IRModule module = IRModule::Empty();
  module.CopyOnWrite()->Add(GlobalVar("copy"), te::CreatePrimFunc({a, b}, "copy"));
  return module;
}

TEST(NullTargetTest, IsListed) {
  EXPECT_THAT(ListTargets(), Contains("null"));
  EXPECT_EQ(GetTargetSpec("null").codegen({}, Target("null"), {}).code, "");
}

TEST(NullTargetTest, RefusesWithAReason) {
  try {
    driver::BuildModule(Copy(), Target("null"));
    FAIL() << "it compiled something";
  } catch (const TargetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("function copy: target null is a skeleton for new targets"));
  }
}

}  // namespace
}  // namespace treadle::targets
