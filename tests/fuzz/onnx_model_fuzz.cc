// SPDX-License-Identifier: Apache-2.0
// ONNX files all the way: read, compiled to native code, and run on numbers that the file decides.
#include <cstdint>

#include "onnx_run.h"
#include "treadle/base/error.h"
#include "treadle/runtime/limits.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  if (size == 0) return 0;
  treadle::runtime::SetMaxTensorBytes(kMostBytes);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto options = treadle::fuzz::QuietOptions(static_cast<int>(size % 4), "llvm -mcpu=native");
    const treadle::runtime::Model model = treadle::fuzz::Compiled(bytes, options);
    model.Run(treadle::fuzz::InputsFrom(bytes, model.inputs()), 1);
  } catch (const treadle::InternalError&) {
    throw;
  } catch (const treadle::Error&) {
  }
  return 0;
}
