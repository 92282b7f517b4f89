// SPDX-License-Identifier: Apache-2.0
#include "driver/lower/compile_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "driver/lower/kernel_cache.h"
#include "treadle/driver/compile.h"
#include "treadle/ir/transform.h"
#include "treadle/passes/passes.h"
#include "treadle/relay/text.h"
#include "treadle/schedule/kernel.h"
#include "treadle/targets/target_spec.h"
#include "treadle/tir/schedule.h"

namespace treadle::driver {
namespace {

class CompileEngineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { RegisterAll(); }  // before the members: targets are registered then
  /// A fused function of vectors of `size`.
  static relay::Function Add(int size) { return Add(std::to_string(size)); }
  static relay::Function Add(const std::string& size) {
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

/// A target whose schedule is made by `schedule`.
Target TargetWithSchedule(const std::string& name, const std::function<tir::PrimFunc(const tir::PrimFunc&)>& schedule) {
  targets::TargetSpec spec;
  spec.kind.name = name;
  spec.schedule = [schedule](const tir::PrimFunc& func, const Target&) { return schedule(func); };
  spec.codegen = [](const targets::Functions&, const Target&, const targets::CodegenOptions&) {
    return targets::Artifact();
  };
  targets::RegisterTarget(spec);
  return Target(name);
}

TEST_F(CompileEngineTest, OnlySchedulesThatDontFitSymbolicSizesAreDoneWithoutAndThatIsNoted) {
  const Target unfit = TargetWithSchedule(
      "test_unfit", [](const tir::PrimFunc&) -> tir::PrimFunc { throw tir::ScheduleError("split: ? isn't known"); });
  CompileEngine engine;
  Kernel& symbolic = engine.Find(Add("?"), unfit);
  engine.Lower(&symbolic);
  EXPECT_TRUE(symbolic.lowered.defined());
  EXPECT_THAT(symbolic.choices, ::testing::HasSubstr("# not scheduled: split: ? isn't known"));
  EXPECT_THAT([&] { engine.Lower(&engine.Find(Add("8"), unfit)); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("split: ? isn't known")));

  const Target broken = TargetWithSchedule("test_broken", [](const tir::PrimFunc& func) {
    TREADLE_ICHECK(!func.defined()) << "a defect";
    return func;
  });
  EXPECT_THAT([&] { engine.Lower(&engine.Find(Add("?"), broken)); },
              ::testing::ThrowsMessage<InternalError>(::testing::HasSubstr("a defect")));
  const Target refused = TargetWithSchedule(
      "test_refused", [](const tir::PrimFunc&) -> tir::PrimFunc { throw ShapeError("a user's mistake"); });
  EXPECT_THAT([&] { engine.Lower(&engine.Find(Add("?"), refused)); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("a user's mistake")));
}

TEST(ParallelForTest, EveryIndexIsWorkedOnAndTheFirstErrorIsThrown) {
  std::vector<std::atomic<int>> runs(50);
  ParallelFor(runs.size(), 4, [&](size_t i) { ++runs[i]; });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
  EXPECT_THAT(
      [] {
        ParallelFor(50, 4, [](size_t i) {
          if (i % 2 == 1) throw ShapeError(StrCat("index ", i));
        });
      },
      ::testing::ThrowsMessage<ShapeError>("index 1"));
}

}  // namespace
}  // namespace treadle::driver
