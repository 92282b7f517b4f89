// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/graph/passes.h"

#include "passes/fuse_attention.h"
#include "targets/cpu/calibration.h"
#include "treadle/passes/passes.h"

namespace treadle::relay::transform {

void RegisterCpuPasses() {
  using treadle::transform::RegisterPass;
  RegisterPass("Conv1DToConv2D", [] { return Conv1DToConv2D(); });
  RegisterPass("Conv3DToConv2D", [] { return Conv3DToConv2D(); });
  RegisterPass("WidthToChannels", [] { return WidthToChannels(); });
  RegisterPass("SkipPaddedTaps", [] { return SkipPaddedTaps(); });
  RegisterPass("DilationToBatch", [] { return DilationToBatch(); });
  RegisterPrecisionOptions();
  RegisterPass("ComputePrecision", [] { return ComputePrecision(); });
  RegisterPass("WidenBytes", [] { return WidenBytes(); });
  treadle::transform::RegisterPassConfig(targets::kCalibrationOption, "string",
                                         "what treadle doctor --calibrate measured of this machine, or none");
  treadle::transform::RegisterPassConfig(kJointLayouts, "bool", "blocks of channels are chosen together (true)");
  RegisterPass("PlanLayout", [] { return PlanLayout(); });
}

}  // namespace treadle::relay::transform

namespace treadle::targets {

std::vector<transform::Pass> CpuGraphPasses(const Target& target) {
  using namespace relay::transform;  // NOLINT(google-build-using-namespace): the list reads best with bare names
  return {
      FuseAttention(),
      SimplifyExpr(),
      Conv1DToConv2D(),
      Conv3DToConv2D(),
      WidthToChannels(),
      SkipPaddedTaps(),
      DilationToBatch(),
      ComputePrecision(target),
      FoldConstant(),
      WidenBytes(target),
      PlanLayout(ops::cpu::MachineOf(target), target),
      // What several calls do with a constant weight (steps of a recurrent network) is one constant then.
      EliminateCommonSubexpr(),
  };
}

}  // namespace treadle::targets
