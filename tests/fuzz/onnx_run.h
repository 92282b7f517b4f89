// SPDX-License-Identifier: Apache-2.0
// ONNX files all the way, for fuzzers: compiled, and run on numbers that the file decides.
#pragma once

#include <string>

#include "driver/package/export_library.h"
#include "runtime/unfinished.h"
#include "treadle/driver/compile.h"
#include "treadle/runtime/model.h"

namespace treadle::fuzz {

inline driver::CompileOptions QuietOptions(int opt_level, const std::string& target) {
  driver::CompileOptions options;
  options.opt_level = opt_level;
  options.target = target;
  options.threads = 1;
  options.use_cache = false;
  return options;
}

/// Inputs whose bytes are those of the file; unknown dimensions are 1 to 3.
inline runtime::NamedTensors InputsFrom(const std::string& bytes, const std::vector<runtime::TensorInfo>& infos) {
  runtime::NamedTensors inputs;
  size_t at = 0;
  for (const runtime::TensorInfo& info : infos) {
    std::vector<int64_t> shape = info.shape;
    for (int64_t& dim : shape) dim = dim < 0 ? 1 + static_cast<int64_t>(bytes.size() % 3) : dim;
    runtime::NDArray value = runtime::NDArray::Empty(shape, info.dtype);
    auto* data = static_cast<char*>(value.data_ptr());
    for (int64_t i = 0; i < value.nbytes(); ++i) data[i] = bytes[at++ % bytes.size()];
    if (info.dtype.is_bool()) {
      for (int64_t i = 0; i < value.nbytes(); ++i) data[i] &= 1;
    }
    inputs[info.name] = value;
  }
  return inputs;
}

inline runtime::Model Compiled(const std::string& bytes, const driver::CompileOptions& options) {
  runtime::TemporaryDirectory folder;
  const std::string path = folder.Path("model.so");
  driver::ExportLibrary(driver::CompileOnnxBytes(bytes, options, ""), path);
  return runtime::Model::Load(path);
}

}  // namespace treadle::fuzz
