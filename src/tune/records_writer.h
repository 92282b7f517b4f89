// SPDX-License-Identifier: Apache-2.0
// Appending to a file of records: several processes may do so at once, and one that is killed leaves whole lines.
#pragma once

#include <string>
#include <vector>

#include "treadle/schedule/records.h"

namespace treadle::tune {

/// Refuses (Error) a path that records can't be appended to, one of `inputs` included.
void CheckRecordsPath(const std::string& path, const std::vector<std::string>& inputs = {});

class RecordsWriter {
 public:
  /// Opens or makes the file; where its last line is torn, begins a new one. Throws RuntimeError naming the path.
  explicit RecordsWriter(const std::string& path);
  ~RecordsWriter();
  RecordsWriter(const RecordsWriter&) = delete;
  RecordsWriter& operator=(const RecordsWriter&) = delete;

  /// Writes whole lines at once, under a lock. Throws RuntimeError.
  void Write(const std::string& lines);
  /// Waits until they are on the disk.
  void Sync();

 private:
  std::string path_;
  int fd_ = -1;
};

/// What `treadle records prune` keeps: of each problem and machine the best that are confirmed, and what is withdrawn;
/// of other lines, those of kind "header". Text of a file.
std::string PruneRecords(const schedule::RecordFile& file);

}  // namespace treadle::tune
