// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/graph/passes.h"

namespace treadle::relay::transform {

void RegisterCpuPasses() {
  using treadle::transform::RegisterPass;
  RegisterPass("Conv1DToConv2D", [] { return Conv1DToConv2D(); });
  RegisterPass("Conv3DToConv2D", [] { return Conv3DToConv2D(); });
  RegisterPass("WidthToChannels", [] { return WidthToChannels(); });
  RegisterPass("PlanLayout", [] { return PlanLayout(); });
}

}  // namespace treadle::relay::transform
