// SPDX-License-Identifier: Apache-2.0
#include "driver/export_library.h"

#include <unistd.h>

#include <filesystem>

#include "backends/linker.h"
#include "treadle/driver/compile.h"

namespace treadle::driver {

void WriteLibrary(const std::vector<std::string>& objects, const runtime::ArtifactWriter* writer,
                  const std::string& path, const Target& target) {
  if (writer == nullptr) return backends::LinkSharedLibrary(objects, {}, path, target);
  std::string blob = writer->Finish();
  backends::EmbeddedData data;
  data.symbol = backends::kBlobSymbol;
  data.pieces = {blob};
  data.alignment = 4096;
  // Under another name until it is sealed, so that nobody loads half a library.
  std::string partial = path + ".partial" + std::to_string(getpid());
  backends::LinkSharedLibrary(objects, {data}, partial, target);
  std::error_code error;
  try {
    runtime::SealFile(partial);
    std::filesystem::rename(partial, path, error);
  } catch (...) {
    std::filesystem::remove(partial, error);
    throw;
  }
  if (error) throw Error(StrCat("can't write '", path, "': ", error.message()));
}

void ExportLibrary(const CompiledModel& model, const std::string& path) {
  runtime::ArtifactWriter writer;
  writer.AddSection("manifest", model.manifest.ToJson());
  writer.AddSection("graph", model.graph_json);
  runtime::ParamList params;
  for (const auto& [name, value] : model.params) params.emplace_back(name, value);
  writer.AddParams(params);
  WriteLibrary(model.objects, &writer, path, Target(model.target));
}

}  // namespace treadle::driver
