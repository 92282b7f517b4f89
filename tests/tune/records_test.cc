// SPDX-License-Identifier: Apache-2.0
#include "treadle/schedule/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "runtime/file_io.h"
#include "treadle/driver/compile.h"
#include "treadle/schedule/kernel.h"
#include "treadle/schedule/problems.h"
#include "tune/records_writer.h"

namespace treadle::schedule {
namespace {

class RecordsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { driver::RegisterAll(); }

  static TuningRecord Record(int64_t m, double hi, const std::string& state = "confirmed") {
    const Kernel* kernel = FindKernel("conv2d.direct");
    TuningRecord record;
    record.problem = ToJson(Make<Problem, ConvProblemNode>([&](auto& p) { p.ic = m; }));
    record.kernel = kernel->name;
    record.revision = kernel->revision;
    record.schema = SchemaHash(kernel->plan_type);
    record.plan = StrCat(R"({"type":"schedule.DirectConvPlan","oh_block":)", static_cast<int>(hi * 1000),
                         R"(,"tile_ow":1,"tile_oc":1,"oc_group":1,"ic_chunk":0})");
    record.machine = "here";
    record.ratio = hi - 0.01;
    record.lo = hi - 0.02;
    record.hi = hi;
    record.state = state;
    record.time = 1000;
    return record;
  }
  static std::string Chosen(const std::string& text) {
    return PlanLines(BestRecords(ReadRecords(text).records, "here"));
  }
};

TEST_F(RecordsTest, LinesAreReadAsTheyWereWritten) {
  TuningRecord record = Record(16, 0.9);
  record.error = "a \"quote\"\n and a line feed";
  const RecordFile file = ReadRecords(record.ToLine());
  ASSERT_EQ(file.records.size(), 1u);
  EXPECT_EQ(file.records[0].ToLine(), record.ToLine());
  EXPECT_TRUE(file.faults.empty());
}

TEST_F(RecordsTest, TheLeastUpperBoundIsTakenOfEachProblem) {
  const std::string text = Record(16, 0.95).ToLine() + Record(16, 0.9).ToLine() + Record(32, 0.8).ToLine() +
                           Record(16, 0.5, "raced").ToLine();
  const auto best = BestRecords(ReadRecords(text).records, "here");
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].hi, 0.9);
  EXPECT_TRUE(BestRecords(ReadRecords(text).records, "elsewhere").empty());
}

TEST_F(RecordsTest, OrderOfLinesDoesntMatter) {
  std::vector<std::string> lines;
  for (int m : {16, 32, 48}) {
    for (double hi : {0.95, 0.9, 0.85}) lines.push_back(Record(m, hi).ToLine());
  }
  lines.push_back(Record(16, 0.85, "withdrawn").ToLine());
  auto join = [&] {
    std::string text;
    for (const std::string& line : lines) text += line;
    return text;
  };
  const std::string chosen = Chosen(join());
  std::mt19937 random(1);
  for (int i = 0; i < 10; ++i) {
    std::shuffle(lines.begin(), lines.end(), random);
    EXPECT_EQ(Chosen(join()), chosen);
  }
  EXPECT_EQ(Chosen(tune::PruneRecords(ReadRecords(join()))), chosen);
}

TEST_F(RecordsTest, WhatIsWithdrawnCountsAgainOnceItIsConfirmedLater) {
  TuningRecord later = Record(16, 0.9);
  later.time = 2000;
  const std::string text = Record(16, 0.9).ToLine() + Record(16, 0.9, "withdrawn").ToLine();
  EXPECT_EQ(Chosen(text), "");
  EXPECT_NE(Chosen(text + later.ToLine()), "");
}

TEST_F(RecordsTest, OtherRevisionsAndSchemasAreLeftOut) {
  TuningRecord record = Record(16, 0.9);
  EXPECT_EQ(WhyNotRecord(record), "");
  ++record.revision;
  EXPECT_THAT(WhyNotRecord(record), ::testing::HasSubstr("revision"));
  record = Record(16, 0.9);
  record.schema = "0000000000000000";
  EXPECT_EQ(Chosen(record.ToLine()), "");
  record.kernel = "conv2d.unheard";
  EXPECT_THAT(WhyNotRecord(record), ::testing::HasSubstr("there is no kernel conv2d.unheard"));
}

// Whatever happens to a file: no crash, and no plan that nobody wrote.
TEST_F(RecordsTest, DamagedFilesGiveWholeLinesOnly) {
  const std::string text = Record(16, 0.95).ToLine() + Record(32, 0.9).ToLine() + Record(48, 0.8).ToLine();
  std::vector<std::string> known;
  for (const TuningRecord& record : ReadRecords(text).records) known.push_back(record.ToLine());
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = text;
    for (unsigned k = 0; k <= random() % 3; ++k) {
      const size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, random() % 50);
          break;
        case 2:
          damaged.insert(at, damaged.substr(random() % damaged.size(), 20));
          break;
        default:
          damaged.resize(at + 1);
      }
    }
    for (const TuningRecord& record : ReadRecords(damaged).records) {
      EXPECT_THAT(known, ::testing::Contains(record.ToLine()));
    }
  }
}

TEST_F(RecordsTest, LinesMayEndAsOnWindows) {
  std::string line = Record(16, 0.95).ToLine();
  line.insert(line.size() - 1, "\r");
  EXPECT_EQ(ReadRecords(line).records.size(), 1);
  EXPECT_TRUE(ReadRecords(line).faults.empty());
}

TEST_F(RecordsTest, ProcessesAppendWholeLinesToOneFile) {
  const std::string path = ::testing::TempDir() + "/records" + std::to_string(getpid()) + ".jsonl";
  runtime::WriteFile(path, "{\"torn\":");  // what a killed process may leave
  constexpr int kProcesses = 4, kLines = 50;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    tune::RecordsWriter writer(path);
    for (int k = 0; k < kLines; ++k) writer.Write(Record(16 * (i + 1), 0.9).ToLine());
    _exit(0);
  }
  for (pid_t child : children) waitpid(child, nullptr, 0);
  const RecordFile file = ReadRecordFile(path);
  EXPECT_EQ(file.records.size(), static_cast<size_t>(kProcesses * kLines));
  EXPECT_EQ(file.faults.size(), 1u);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace treadle::schedule
