// SPDX-License-Identifier: Apache-2.0
// Files of tuning records. An odd first byte: the rest are lines that get right checksums, so that what is behind them
// is read, too. What is read can be written, chosen from and read again.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "runtime/hash64.h"
#include "treadle/schedule/records.h"

namespace schedule = treadle::schedule;

namespace {

/// The line with the checksum that belongs to it.
std::string Sealed(const std::string& line) {
  if (line.empty() || line.back() != '}') return line + "\n";
  char sum[17];
  std::snprintf(sum, sizeof(sum), "%016llx", static_cast<unsigned long long>(treadle::runtime::Hash64(line)));
  return line.substr(0, line.size() - 1) + ",\"x\":\"" + sum + "\"}\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1) {
    std::string sealed;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      sealed += Sealed(text.substr(at, end - at));
      at = end + 1;
    }
    text = std::move(sealed);
  }
  const schedule::RecordFile file = schedule::ReadRecords(text);
  std::string again;
  for (const schedule::TuningRecord& record : file.records) again += record.ToLine();
  if (schedule::ReadRecords(again).records.size() != file.records.size()) __builtin_trap();
  schedule::PlanLines(schedule::BestRecords(file.records, file.records.empty() ? "" : file.records[0].machine));
  return 0;
}
