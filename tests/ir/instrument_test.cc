// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/instrument.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace treadle::transform {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;

Pass Noop(const std::string& name) {
  return CreateModulePass([](IRModule module, const PassContext&) { return module; }, PassInfo{name, 0, {}, ""});
}

TEST(PassTiming, IsATreeOfWhatRan) {
  auto timing = MakePassTiming();
  PassContext context = PassContext::Create();
  context.CopyOnWrite()->instruments = {timing};
  {
    PassContext::Scope scope(context);
    Noop("First")(IRModule::Empty());
    Sequential({Noop("A"), Noop("B")}, "Both")(IRModule::Empty());
  }
  EXPECT_THAT(timing->Render(), MatchesRegex("First: .*us \\[.*us\\] .*\nBoth: .*\n  A: .*\n  B: .*\nTotal .*\n"));
}

TEST(PassTiming, APassThatFailsIsMarked) {
  auto timing = MakePassTiming();
  PassContext context = PassContext::Create();
  context.CopyOnWrite()->instruments = {timing};
  Pass fails =
      CreateModulePass([](IRModule, const PassContext&) -> IRModule { throw Error("no"); }, {"Fails", 0, {}, ""});
  PassContext::Scope scope(context);
  EXPECT_THROW(fails(IRModule::Empty()), Error);
  EXPECT_THAT(timing->Render(), MatchesRegex("Fails: not finished\n.*\n"));
}

TEST(PassObserver, SeesThePassesNamed) {
  std::vector<std::string> seen;
  auto note = [&](const IRModule&, const PassInfo& info) { seen.push_back(info.name); };
  PassContext context = PassContext::Create();
  context.CopyOnWrite()->instruments = {MakePassObserver({"B"}, true, note), MakePassObserver({}, false, note)};
  PassContext::Scope scope(context);
  Noop("A")(IRModule::Empty());
  Noop("B")(IRModule::Empty());
  EXPECT_THAT(seen, ElementsAre("A", "B", "B"));
}

}  // namespace
}  // namespace treadle::transform
