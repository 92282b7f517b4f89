// SPDX-License-Identifier: Apache-2.0
// Everything that the runtime reads from files: the first byte of the input chooses the reader. A reader either accepts
// or throws ModelFormatError; anything else is a bug.
#include <cstdint>
#include <string_view>

#include "runtime/json.h"
#include "treadle/base/error.h"
#include "treadle/runtime/artifact.h"
#include "treadle/runtime/graph_spec.h"
#include "treadle/runtime/manifest.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/params.h"
#include "treadle/runtime/vm/program.h"

namespace rt = treadle::runtime;

namespace {

void ReadArtifact(std::string_view bytes) {
  rt::ArtifactReader reader(bytes, "fuzz");
  for (const std::string& name : reader.SectionNames()) reader.Section(name);
  reader.Params(nullptr);
  reader.BulkRange();
}

void ReadImports(std::string_view bytes) {
  rt::ByteReader reader(bytes, "fuzz");
  rt::LoadImports(&reader, rt::Module());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 8) {
      case 0:
        rt::JsonValue::Parse(bytes, "fuzz");
        break;
      case 1:
        rt::GraphSpec::FromJson(bytes, "fuzz");
        break;
      case 2:
        rt::LoadParams(bytes, "fuzz");
        break;
      case 3:
        rt::Manifest::FromJson(bytes, "fuzz");
        break;
      case 4:
        ReadArtifact(bytes);
        break;
      case 5:
        ReadImports(bytes);
        break;
      case 6:
        rt::GraphSpec::FromBinary(bytes, "fuzz");
        break;
      case 7:
        rt::vm::Program::Load(bytes, 3, "fuzz").Disassemble();
        break;
    }
  } catch (const treadle::ModelFormatError&) {
  }
  return 0;
}
