// SPDX-License-Identifier: Apache-2.0
// Text of graph IR: it parses, or throws an Error of the user's; what parses prints and parses again.
#include <cstdint>
#include <string>

#include "treadle/ops/compute.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"

using namespace treadle;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ops::RegisterAllOps();
  std::string text(reinterpret_cast<const char*>(data), size);
  try {
    IRModule module = relay::ParseModule(text, "fuzz", /*infer_types=*/false);
    relay::ParseModule(relay::AsText(module), "again", /*infer_types=*/false);
    relay::InferTypes(module);
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
  }
  return 0;
}
