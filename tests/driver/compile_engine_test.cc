// SPDX-License-Identifier: Apache-2.0
#include "driver/lower/compile_engine.h"

#include <gtest/gtest.h>

#include "driver/lower/kernel_cache.h"
#include "treadle/driver/compile.h"
#include "treadle/ir/transform.h"
#include "treadle/passes/passes.h"
#include "treadle/relay/text.h"
#include "treadle/schedule/kernel.h"

namespace treadle::driver {
namespace {

class CompileEngineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { RegisterAll(); }  // before the members: targets are registered then
  /// A fused function of vectors of `size`.
  static relay::Function Add(int size) {
    const std::string type = StrCat("Tensor[(", size, "), float32]");
    IRModule module = relay::ParseModule(StrCat("#[version = \"0.0.5\"]\ndef @main(%x: ", type, ", %y: ", type,
                                                ") {\n  fn (%a: ", type, ", %b: ", type, ", Primitive=1) -> ", type,
                                                " {\n    add(%a, %b)\n  }(%x, %y)\n}\n"));
    auto main = Downcast<relay::Function>(relay::transform::InferType()(module)->Lookup("main"));
    return Downcast<relay::Function>(main->body.as<relay::CallNode>()->op);
  }
  const Target target_{"llvm"};
};

TEST_F(CompileEngineTest, EqualFunctionsAreOneKernel) {
  CompileEngine engine;
  EXPECT_EQ(&engine.Declare(Add(8), target_), &engine.Declare(Add(8), target_));
  EXPECT_EQ(engine.kernels().size(), 1u);
  EXPECT_EQ(engine.kernels()[0]->uses, 2);
}

TEST_F(CompileEngineTest, WhatIsOnlyLoweredForThePlanIsntPartOfTheBuild) {
  CompileEngine engine;
  EngineOptions options;
  options.use_cache = false;
  Kernel& asked = engine.Find(Add(8), target_);
  engine.FindInPlace({&asked, &asked}, options);
  EXPECT_EQ(asked.in_place, (std::vector<int>{0, 1}));
  EXPECT_TRUE(engine.kernels().empty());
  // Others come first, and get the names that it would have had.
  EXPECT_EQ(engine.Declare(Add(16), target_).symbol, "treadle_default_fused_add");
  EXPECT_EQ(engine.Declare(Add(8), target_).symbol, "treadle_default_fused_add_1");
  EXPECT_EQ(asked.lowered->GetAttr<String>(attr::kGlobalSymbol)->str(), "treadle_default_fused_add_1");
}

// A proof about one lowered form isn't one about another: of a kernel with several plans each has entries of its own.
TEST_F(CompileEngineTest, CachedKernelsArePerPlanAndFreeOfOtherProblemsPlans) {
  const relay::Function add = Add(8);
  EXPECT_NE(KernelCacheKey("in place", add, target_, "plan a"), KernelCacheKey("in place", add, target_, "plan b"));
  const std::string before = KernelCacheKey("in place", add, target_, "");
  auto context = transform::PassContext::Create();
  context.CopyOnWrite()->config.Set(schedule::kPlansOption, String("{}"));
  transform::PassContext::Scope scope(context);
  EXPECT_EQ(KernelCacheKey("in place", add, target_, ""), before);
}

}  // namespace
}  // namespace treadle::driver
