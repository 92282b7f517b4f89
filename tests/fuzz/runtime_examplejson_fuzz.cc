// SPDX-License-Identifier: Apache-2.0
// Graphs of the example of an external code generator.
#include <cstdint>
#include <string>

#include "external/json/runtime/graph.h"
#include "treadle/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    treadle::external::ParseExampleJson(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const treadle::InternalError&) {
    throw;
  } catch (const treadle::Error&) {
  }
  return 0;
}
