// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace treadle::transform {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> log_of_test;

class Recorder : public PassInstrument {
 public:
  explicit Recorder(std::string label, bool fails_on_enter = false)
      : label_(std::move(label)), fails_on_enter_(fails_on_enter) {}
  std::string name() const override { return label_; }
  void EnterPassContext() override {
    if (fails_on_enter_) throw Error("no");
    log_of_test.push_back(label_ + " enter");
  }
  void ExitPassContext() override { log_of_test.push_back(label_ + " exit"); }
  bool ShouldRun(const IRModule&, const PassInfo& info) override { return info.name != "Vetoed"; }
  void RunBeforePass(const IRModule&, const PassInfo& info) override { log_of_test.push_back("before " + info.name); }

 private:
  std::string label_;
  bool fails_on_enter_;
};

Pass Noop(const std::string& name, int level, std::vector<std::string> required = {}) {
  return CreateModulePass([](IRModule module, const PassContext&) { return module; },
                          PassInfo{name, level, std::move(required), ""});
}

class Transform : public testing::Test {
 protected:
  void SetUp() override { log_of_test.clear(); }
};

TEST_F(Transform, SequentialRunsWhatTheContextEnables) {
  RegisterPass("Needed", [] { return Noop("Needed", 9); });
  PassContext context = PassContext::Create();
  auto* node = context.CopyOnWrite();
  node->disabled_pass = {"Off"};
  node->required_pass = {"High"};
  node->instruments.push_back(MakeObject<Recorder>("r"));
  {
    PassContext::Scope scope(context);
    Sequential({Noop("Low", 1, {"Needed"}), Noop("Off", 0), Noop("High", 5), Noop("Higher", 5), Noop("Vetoed", 0)})(
        IRModule::Empty());
  }
  EXPECT_THAT(log_of_test,
              ElementsAre("r enter", "before sequential", "before Needed", "before Low", "before High", "r exit"));
}

TEST_F(Transform, FailureOnEnterLeavesWhatWasEntered) {
  PassContext context = PassContext::Create();
  auto* node = context.CopyOnWrite();
  node->instruments = {MakeObject<Recorder>("a"), MakeObject<Recorder>("b", true), MakeObject<Recorder>("c")};
  EXPECT_THROW(PassContext::Scope scope(context), Error);
  EXPECT_THAT(log_of_test, ElementsAre("a enter", "a exit"));
  EXPECT_TRUE(context->instruments.empty());
}

TEST_F(Transform, UnknownOptionsListTheKnownOnes) {
  RegisterPassConfig("test.option", "int", "");
  PassContext context = PassContext::Create();
  context.CopyOnWrite()->config.Set("test.optoin", PrimExpr(1));
  try {
    PassContext::Scope scope(context);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("test.option"));
  }
}

TEST_F(Transform, ContextsNest) {
  PassContext outer = PassContext::Create();
  outer.CopyOnWrite()->opt_level = 3;
  PassContext::Scope scope(outer);
  EXPECT_EQ(PassContext::Current()->opt_level, 3);
  {
    PassContext::Scope inner(PassContext::Create());
    EXPECT_EQ(PassContext::Current()->opt_level, 2);
  }
  EXPECT_EQ(PassContext::Current()->opt_level, 3);
}

}  // namespace
}  // namespace treadle::transform
