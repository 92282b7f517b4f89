// SPDX-License-Identifier: Apache-2.0
#include "backends/stackvm/stackvm.h"
#include "treadle/relay/text.h"

namespace treadle {
namespace relay {
__attribute__((weak)) std::string AsText(const ObjectRef&, bool) { throw Error("no text printer in this build"); }
}  // namespace relay
namespace backends {
__attribute__((weak)) void RunPrimFunc(const tir::PrimFunc&, const std::vector<runtime::NDArray>&) {
  throw Error("no interpreter in this build");
}
}  // namespace backends
}  // namespace treadle
