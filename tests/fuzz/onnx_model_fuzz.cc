// SPDX-License-Identifier: Apache-2.0
// ONNX files all the way: read, compiled to native code, and run on numbers that the file decides.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "driver/package/export_library.h"
#include "runtime/unfinished.h"
#include "treadle/base/error.h"
#include "treadle/driver/compile.h"
#include "treadle/runtime/limits.h"
#include "treadle/runtime/model.h"

namespace rt = treadle::runtime;

namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;

void CompileAndRun(const std::string& bytes) {
  treadle::driver::CompileOptions options;
  options.opt_level = static_cast<int>(bytes.size() % 4);
  options.threads = 1;
  options.use_cache = false;
  rt::TemporaryDirectory folder;
  const std::string path = folder.Path("model.so");
  treadle::driver::ExportLibrary(treadle::driver::CompileOnnxBytes(bytes, options, ""), path);
  const rt::Model model = rt::Model::Load(path);
  rt::NamedTensors inputs;
  size_t at = 0;
  for (const rt::TensorInfo& info : model.inputs()) {
    std::vector<int64_t> shape = info.shape;
    for (int64_t& dim : shape) dim = dim < 0 ? 1 + static_cast<int64_t>(bytes.size() % 3) : dim;
    rt::NDArray value = rt::NDArray::Empty(shape, info.dtype);
    auto* data = static_cast<char*>(value.data_ptr());
    for (int64_t i = 0; i < value.nbytes(); ++i) data[i] = bytes[at++ % bytes.size()];
    if (info.dtype.is_bool()) {
      for (int64_t i = 0; i < value.nbytes(); ++i) data[i] &= 1;
    }
    inputs[info.name] = value;
  }
  model.Run(inputs, 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  rt::SetMaxTensorBytes(kMostBytes);
  try {
    CompileAndRun(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const treadle::InternalError&) {
    throw;
  } catch (const treadle::Error&) {
  }
  return 0;
}
