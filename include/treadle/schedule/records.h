// SPDX-License-Identifier: Apache-2.0
// Records of measured plans: a file of JSON lines that only grows. Each line carries a checksum, so that a torn or
// damaged one is left out, and what it takes to see whether it still holds: the kernel's revision, the schema of its
// plan, the machine. Files are merged by concatenation. Here they are read; src/tune writes them.
//
//   {"kind":"plan","id":"..","problem":{..},"kernel":"conv2d.direct","rev":1,"schema":"..","plan":{..},"m":"..",
//    "threads":2,"ratio":0.91,"lo":0.90,"hi":0.92,"pairs":36,"procs":3,"us":412.7,"state":"confirmed","err":"",
//    "t":1763800000,"x":"<XXH64 of the line without this field>"}
//
// Ratios are measured times over those of the default plan, both in turns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "treadle/schedule/machine.h"

namespace treadle::schedule {

/// Option of the pass context: path of a file of records. Build takes the confirmed plans of this machine from it.
inline constexpr const char* kRecordsOption = "schedule.records";
/// Instead of a path: no records, whatever the environment says.
inline constexpr const char* kNoRecords = "none";
/// Environment variable with such a path, for builds whose context names none.
inline constexpr const char* kRecordsVariable = "TREADLE_RECORDS";

struct TuningRecord {
  std::string problem, kernel, plan;  ///< JSON, name, JSON
  int revision = 1;
  std::string schema;                ///< SchemaHash of the plan's class
  std::string machine;               ///< MachineId
  int threads = 0;                   ///< 0: all
  double ratio = 1, lo = 1, hi = 1;  ///< median of paired times over the default's; its 95 % interval
  int pairs = 0, processes = 0;
  double microseconds = 0;  ///< of the default plan
  /// "confirmed": in fresh processes, builds use it; "raced": once; "rejected": slower or no better; "error": `error`
  /// says how; "withdrawn": a whole model wasn't faster with it.
  std::string state;
  std::string error;
  int64_t time = 0;  ///< seconds since 1970

  /// 16 hexadecimal digits of problem, kernel, plan, machine and threads.
  std::string Id() const;
  /// The line, with checksum and line feed.
  std::string ToLine() const;
};

/// A line that isn't a plan: {"kind": .., ...}; `fields` is a JSON object without "kind" and "x".
std::string MakeRecordLine(const std::string& kind, const std::string& fields);

struct RecordFile {
  std::vector<TuningRecord> records;
  std::vector<std::string> headers;  ///< lines of other kinds, as they are
  std::vector<std::string> faults;   ///< "line 17: its checksum is wrong", of lines that are left out
  size_t lines = 0;
  /// Whether it is something else: it has lines, and none of them is one of a file of records.
  bool foreign() const { return records.empty() && headers.empty() && !faults.empty(); }
};
/// Never throws on what the text holds.
RecordFile ReadRecords(const std::string& text);
/// Throws Error where there is no such file, ModelFormatError where it can't be read.
RecordFile ReadRecordFile(const std::string& path);

/// What a measured time depends on: the instruction set, caches, cores; not the frequency.
std::string MachineId(const TargetFeatures& machine);

/// Why a record doesn't fit this build (kernel, revision, schema); "" where it does.
std::string WhyNotRecord(const TuningRecord& record);

/// Of each problem the plan with the least upper bound among those that are confirmed on `machine`, not withdrawn later
/// and fit this build. A pure function of the set of records. Ordered by problem.
std::vector<TuningRecord> BestRecords(const std::vector<TuningRecord>& records, const std::string& machine);

/// Those as text for kPlansOption.
std::string PlanLines(const std::vector<TuningRecord>& best);

}  // namespace treadle::schedule
