// SPDX-License-Identifier: Apache-2.0
// Tensors in files: the first byte of the input chooses .npy, .npz or .pb. What is read is written and read again.
#include <cstdint>
#include <string>

#include "cli/tensor_file.h"
#include "treadle/base/error.h"
#include "treadle/runtime/limits.h"

namespace cli = treadle::cli;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  treadle::runtime::SetMaxTensorBytes(int64_t{1} << 26);
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  cli::NamedTensors tensors;
  try {
    switch (data[0] % 3) {
      case 0:
        tensors.emplace_back("x", cli::ParseNpy(bytes, "fuzz"));
        break;
      case 1:
        tensors = cli::ParseNpz(bytes, "fuzz");
        break;
      case 2:
        tensors.push_back(cli::ParseTensorProto(bytes, "fuzz"));
        break;
    }
    if (cli::ParseNpz(cli::FormatNpz(tensors), "again").size() != tensors.size()) __builtin_trap();
  } catch (const treadle::InternalError&) {
    throw;
  } catch (const treadle::Error&) {
  }
  return 0;
}
