// SPDX-License-Identifier: Apache-2.0
#include "tune/records_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "runtime/file_io.h"
#include "treadle/base/error.h"

namespace treadle::tune {

void CheckRecordsPath(const std::string& path, const std::vector<std::string>& inputs) {
  runtime::CheckOutputPath(path, runtime::FileKind::kText, inputs);
  if (access(path.c_str(), W_OK) != 0 && errno != ENOENT) {
    throw Error(StrCat("can't write '", path, "': ", std::strerror(errno)));
  }
  std::ifstream existing(path);
  const int first = existing.peek();  // an empty file is one, too
  if (existing && first != std::ifstream::traits_type::eof() && first != '{' && first != '\n' && first != '\r') {
    throw Error(StrCat("can't append to '", path, "': it isn't a file of tuning records; choose another name"));
  }
}

RecordsWriter::RecordsWriter(const std::string& path) : path_(path) {
  CheckRecordsPath(path);
  fd_ = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw RuntimeError(StrCat("can't open ", path, ": ", std::strerror(errno)));
  struct stat status{};
  char last = '\n';
  if (fstat(fd_, &status) == 0 && status.st_size > 0 && pread(fd_, &last, 1, status.st_size - 1) == 1 && last != '\n') {
    Write("\n");
  }
}

RecordsWriter::~RecordsWriter() {
  if (fd_ >= 0) close(fd_);
}

void RecordsWriter::Write(const std::string& lines) {
  while (flock(fd_, LOCK_EX) != 0) {
    if (errno != EINTR) throw RuntimeError(StrCat("can't lock ", path_, ": ", std::strerror(errno)));
  }
  const bool written = runtime::WriteAll(fd_, lines);
  const int error = errno;
  flock(fd_, LOCK_UN);
  if (!written) throw RuntimeError(StrCat("can't write to ", path_, ": ", std::strerror(error)));
}

void RecordsWriter::Sync() { fdatasync(fd_); }

std::string PruneRecords(const schedule::RecordFile& file) {
  std::string text;
  for (const std::string& line : file.headers) text += line + "\n";
  std::set<std::string> machines;
  for (const auto& record : file.records) machines.insert(record.machine);
  for (const std::string& machine : machines) {
    for (const auto& best : schedule::BestRecords(file.records, machine)) text += best.ToLine();
  }
  for (const auto& record : file.records) {
    if (record.state == "withdrawn") text += record.ToLine();
  }
  return text;
}

}  // namespace treadle::tune
