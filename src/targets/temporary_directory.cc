// SPDX-License-Identifier: Apache-2.0
#include "targets/temporary_directory.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "treadle/base/error.h"

namespace treadle::targets {

TemporaryDirectory::TemporaryDirectory() {
  const char* base = std::getenv("TMPDIR");
  path_ = StrCat(base != nullptr && *base != 0 ? base : "/tmp", "/treadle-link-XXXXXX");
  if (mkdtemp(path_.data()) == nullptr) {
    throw RuntimeError(StrCat("can't make a temporary directory ", path_, ": ", std::strerror(errno)));
  }
}

TemporaryDirectory::~TemporaryDirectory() {
  for (const std::string& file : files_) std::remove(file.c_str());
  rmdir(path_.c_str());
}

std::string TemporaryDirectory::Path(const std::string& name) {
  files_.push_back(path_ + "/" + name);
  return files_.back();
}

std::string TemporaryDirectory::Write(const std::string& name, const std::string& bytes) {
  const std::string path = Path(name);
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw RuntimeError(StrCat("can't write ", path, ": ", std::strerror(errno)));
  return path;
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw RuntimeError(StrCat("can't read ", path, ": ", std::strerror(errno)));
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

}  // namespace treadle::targets
