// SPDX-License-Identifier: Apache-2.0
#include "cli/tensor_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "treadle/base/checked_math.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

std::string Extension(const std::string& path) {
  size_t dot = path.find_last_of("./");
  return dot == std::string::npos || path[dot] != '.' ? "" : path.substr(dot);
}

}  // namespace

std::string ReadWholeFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(StrCat("can't open ", path, ": ", std::strerror(errno)));
  std::ostringstream buffer;
  buffer << in.rdbuf();
  if (in.bad() || (buffer.fail() && !buffer.str().empty())) throw Error(StrCat("can't read ", path));
  return std::move(buffer).str();
}

void WriteWholeFile(const std::string& path, const std::string& bytes) {
  const std::string temporary = path + ".partial";
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    if (!out) throw Error(StrCat("can't write ", path, ": ", std::strerror(errno)));
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) {
      std::remove(temporary.c_str());
      throw Error(StrCat("can't write ", path, ": ", std::strerror(errno)), ExitCode::kRuntime);
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::string why = std::strerror(errno);
    std::remove(temporary.c_str());
    throw Error(StrCat("can't write ", path, ": ", why));
  }
}

NamedTensors ReadTensors(const std::string& path) {
  const std::string extension = Extension(path);
  if (extension == ".npy") return {{"", ParseNpy(ReadWholeFile(path), path)}};
  if (extension == ".npz") return ParseNpz(ReadWholeFile(path), path);
  if (extension == ".pb") return {ParseTensorProto(ReadWholeFile(path), path)};
  throw Error(StrCat("can't tell the format of ", path, " by its name; expected .npy, .npz or .pb"));
}

void WriteTensors(const std::string& path, const NamedTensors& tensors) {
  const std::string extension = Extension(path);
  if (extension == ".npz") {
    WriteWholeFile(path, FormatNpz(tensors));
  } else if (extension == ".npy" && tensors.size() == 1) {
    WriteWholeFile(path, FormatNpy(tensors[0].second));
  } else if (extension == ".npy") {
    throw Error(StrCat(path, " can hold one tensor, but there are ", tensors.size(), "; use .npz"));
  } else {
    throw Error(StrCat("can't tell the format of ", path, " by its name; expected .npz or .npy"));
  }
}

}  // namespace treadle::cli
