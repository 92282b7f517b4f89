// SPDX-License-Identifier: Apache-2.0
// Bytecode of target stackvm: refused, or a program that can be listed and written as it was.
#include <cstdint>
#include <string>

#include "targets/stackvm/program.h"
#include "treadle/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto program = treadle::targets::VmProgram::Load(std::string(reinterpret_cast<const char*>(data), size));
    program.Disassemble();
    treadle::targets::VmProgram::Load(program.Save());
  } catch (const treadle::ModelFormatError&) {
  }
  return 0;
}
