// SPDX-License-Identifier: Apache-2.0
#include "fuzz/relay_parser.h"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  treadle::testing::CheckRelayText(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
