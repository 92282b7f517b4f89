// SPDX-License-Identifier: Apache-2.0
// Candidates that go wrong: each is an entry with its reason, and the session goes on.
#include "tune/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/file_io.h"
#include "treadle/driver/compile.h"
#include "treadle/relay/text.h"

namespace treadle::tune {
namespace {

class MeasureTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { driver::RegisterAll(); }
  MeasureTest() : worker_(Options()) {
    task_.problem = R"({"m":1})";
    task_.symbol = "planted";
    task_.target = Target("llvm");
    task_.arguments = {{{64}, DataType::Float(32), false}, {{64}, DataType::Float(32), false}};
  }
  static MeasureOptions Options() {
    MeasureOptions options;
    options.threads = 1;
    options.watchdog = 1;
    options.block = 1e-5;
    options.memory_mib = 512;
    return options;
  }
  Measured Race(const std::string& candidate) {
    return worker_.RaceOne(task_, {TREADLE_PLANTED_RIGHT, "", 1}, {candidate, "", 2});
  }

  Task task_;
  Worker worker_;
};

TEST_F(MeasureTest, WhatGoesWrongIsRecordedAndTheNextOneIsMeasured) {
  const std::pair<const char*, const char*> planted[] = {{TREADLE_PLANTED_WRONG, "wrong result"},
                                                         {TREADLE_PLANTED_CRASH, "crashed: signal 11"},
                                                         {TREADLE_PLANTED_HANG, "took longer than"},
                                                         {TREADLE_PLANTED_ALLOC, "crashed: signal 6"},
                                                         {"/nowhere.so", "nowhere"}};
  for (const auto& [path, reason] : planted) {
    const Measured measured = Race(path);
    EXPECT_EQ(measured.state, "error") << path;
    EXPECT_THAT(measured.error, ::testing::HasSubstr(reason));
    const Measured right = Race(TREADLE_PLANTED_RIGHT);
    EXPECT_NE(right.state, "error") << right.error;
    EXPECT_GT(right.pairs, 0);
  }
}

TEST_F(MeasureTest, CompilingIsBoundedInTimeAndMemory) {
  driver::CompileOptions options;
  options.target = "llvm -mcpu=x86-64-v3";
  options.use_cache = false;
  const IRModule module = relay::ParseModule(R"(#[version = "0.0.5"]
def @main(%a: Tensor[(64, 256), float32], %b: Tensor[(256, 256), float32]) { nn.matmul(%a, %b) }
)",
                                             "test");
  const std::vector<Task> tasks = ExtractTasks(driver::Build(module, {}, options));
  ASSERT_EQ(tasks.size(), 1);
  runtime::TemporaryDirectory folder;
  auto build = [&](const char* prefix, double seconds, int memory_mib) {
    BuildLimits limits;
    limits.seconds = seconds;
    limits.memory_mib = memory_mib;
    return BuildCandidates(tasks[0], {tasks[0].plan, tasks[0].plan}, folder.Path(""), prefix, limits);
  };
  for (const Built& built : build("slow", 1e-4, 4096)) {
    EXPECT_EQ(built.path, "");
    EXPECT_THAT(built.error, ::testing::HasSubstr("compiling took longer than"));
  }
  for (const Built& built : build("large", 30, 1)) EXPECT_NE(built.error, "");
  for (const Built& built : build("right", 30, 4096)) EXPECT_EQ(built.error, "");
}

TEST_F(MeasureTest, TasksTravelAsText) {
  task_.source = relay::Function({}, relay::Tuple(Array<relay::Expr>{}), Type());
  const Task again = Task::FromJson(task_.ToJson());
  EXPECT_EQ(again.ToJson(), task_.ToJson());
  task_.model_constants = 7;
  EXPECT_EQ(Task::FromJson(task_.ToJson()).model_constants, 7);
  EXPECT_THROW(Task::FromJson("{}"), Error);
}

TEST_F(MeasureTest, ConstantsAreAsFarAwayAsInTheModel) {
  const int64_t unknown = BytesOfCopies(task_);
  EXPECT_GE(unknown, task_.target->Features().l3_bytes);
  task_.model_constants = 4096;  // all of them stay in a cache
  EXPECT_EQ(BytesOfCopies(task_), 4096);
  task_.model_constants = int64_t{1} << 40;
  EXPECT_EQ(BytesOfCopies(task_), unknown);
}

}  // namespace
}  // namespace treadle::tune
