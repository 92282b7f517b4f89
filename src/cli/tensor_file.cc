// SPDX-License-Identifier: Apache-2.0
#include "cli/tensor_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/file_io.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/error.h"
#include "treadle/base/suggest.h"

namespace treadle::cli {
namespace {

std::string Extension(const std::string& path) {
  size_t dot = path.find_last_of("./");
  return dot == std::string::npos || path[dot] != '.' ? "" : path.substr(dot);
}

/// "x:i.npy" is a name and a file as shapes are written; "x=a.npy,y=b.npy" several inputs.
std::string InputHelp(const std::string& path) {
  std::error_code ignored;
  const size_t colon = path.find(':');
  if (colon != std::string::npos && std::filesystem::exists(path.substr(colon + 1), ignored)) {
    return StrCat("\nhelp: write the name of the input before '=': ", path.substr(0, colon), "=",
                  path.substr(colon + 1));
  }
  const size_t comma = path.find(',');
  if (comma != std::string::npos && path.find('=', comma) != std::string::npos)
    return "\nhelp: each input has its own -i: -i a=1.npy -i b=2.npy";
  return "";
}

}  // namespace

std::string ReadWholeFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw Error(StrCat("can't read ", path, ": it is a directory"));
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(StrCat("can't open ", path, ": ", std::strerror(errno), InputHelp(path)));
  std::ostringstream buffer;
  buffer << in.rdbuf();
  if (in.bad() || (buffer.fail() && !buffer.str().empty())) throw Error(StrCat("can't read ", path));
  return std::move(buffer).str();
}

void WriteText(const std::string& path, const std::string& text) {
  runtime::WriteFile(path, text, runtime::FileKind::kText);
}

NamedTensors ReadTensors(const std::string& path) {
  if (path.empty()) throw Error("the name of an input's file is empty\nhelp: -i name=file.npy, or -i name=random");
  if (std::filesystem::is_directory(path)) {
    throw Error(
        StrCat("can't read ", path, ": it is a directory; expected a file of values: .npy, .npz, .pb or a picture"));
  }
  const std::string extension = Extension(path);
  if (extension == ".npy") return {{"", ParseNpy(ReadWholeFile(path), path)}};
  if (extension == ".npz") return ParseNpz(ReadWholeFile(path), path);
  if (extension == ".pb") return {ParseTensorProto(ReadWholeFile(path), path)};
  throw Error(StrCat("can't tell the format of ", path,
                     " by its name; expected .npy, .npz, .pb or a picture, or random, ones, zeros, a number",
                     DidYouMean(path, {"random", "ones", "zeros"})));
}

void WriteTensors(const std::string& path, const NamedTensors& tensors) {
  const std::string extension = Extension(path);
  if (extension == ".npz") {
    runtime::WriteFile(path, FormatNpz(tensors), runtime::FileKind::kNpz);
  } else if (extension == ".npy" && tensors.size() == 1) {
    runtime::WriteFile(path, FormatNpy(tensors[0].second), runtime::FileKind::kNpy);
  } else if (extension == ".npy") {
    throw Error(StrCat(path, " can hold one tensor, but there are ", tensors.size(), "; use .npz"));
  } else {
    throw Error(StrCat("can't tell the format of ", path, " by its name; expected .npz or .npy"));
  }
}

}  // namespace treadle::cli
