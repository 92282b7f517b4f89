// SPDX-License-Identifier: Apache-2.0
// TIR as text: it parses, or throws an Error of the user's; what parses prints, and parses again.
#include <cstdint>
#include <string>

#include "treadle/base/error.h"
#include "treadle/ops/compute.h"
#include "treadle/tir/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  treadle::ops::RegisterAllOps();
  treadle::IRModule module;
  try {
    module = treadle::tir::ParseModule(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  } catch (const treadle::InternalError&) {
    throw;
  } catch (const treadle::Error&) {
    return 0;
  }
  const std::string printed = treadle::tir::AsText(module);
  if (treadle::tir::AsText(treadle::tir::ParseModule(printed, "again")) != printed) __builtin_trap();
  return 0;
}
