// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/params.h"

#include <unordered_set>

#include "runtime/file_io.h"

namespace treadle::runtime {
namespace {
constexpr uint64_t kParamsMagic = 0xF7E58D4F05049CB7;
}  // namespace

std::string SaveParams(const ParamList& params) {
  ByteWriter writer;
  size_t bytes = 0;
  for (const auto& [name, array] : params) bytes += name.size() + static_cast<size_t>(array.nbytes()) + 128;
  writer.Reserve(bytes);
  writer.Write<uint64_t>(kParamsMagic);
  writer.Write<uint64_t>(0);
  writer.Write<uint64_t>(params.size());
  for (const auto& [name, array] : params) writer.WriteString(name);
  writer.Write<uint64_t>(params.size());
  for (const auto& [name, array] : params) array.Save(&writer);
  return std::move(writer.bytes());
}

ParamList LoadParams(std::string_view bytes, const std::string& what) {
  ByteReader reader(bytes, what);
  if (reader.Read<uint64_t>() != kParamsMagic) reader.Fail("not a parameter file (wrong magic number)");
  reader.Read<uint64_t>();  // reserved
  uint64_t count = reader.ReadCount(8);
  ParamList params(count);
  std::unordered_set<std::string_view> names;
  for (auto& [name, array] : params) {
    std::string_view text = reader.ReadString();
    if (!names.insert(text).second) reader.Fail(StrCat("parameter \"", text, "\" is given twice"));
    name = text;
  }
  uint64_t tensors = reader.Read<uint64_t>();
  if (tensors != count) reader.Fail(StrCat(count, " names but ", tensors, " tensors"));
  for (auto& [name, array] : params) array = NDArray::Load(&reader);
  reader.ExpectEnd();
  return params;
}

void SaveParamsFile(const std::string& path, const ParamList& params) { WriteFile(path, SaveParams(params)); }

ParamList LoadParamsFile(const std::string& path) {
  MappedFile file(path);
  return LoadParams(file.bytes(), path);
}

}  // namespace treadle::runtime
