// SPDX-License-Identifier: Apache-2.0
// ONNX files: read, and imported where they can be. What a file can't be is an Error of the user's.
#include <cstdint>
#include <memory>
#include <string>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/proto_reader.h"
#include "treadle/base/error.h"
#include "treadle/ops/compute.h"

namespace onnx = treadle::onnx;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  treadle::ops::RegisterAllOps();
  auto owner = std::make_shared<std::string>(reinterpret_cast<const char*>(data), size);
  try {
    onnx::FromOnnx(onnx::ReadModelBytes(*owner, owner, "fuzz"), {});
  } catch (const treadle::InternalError&) {
    throw;
  } catch (const treadle::Error&) {
  }
  return 0;
}
