// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/graph/passes.h"

#include "passes/fuse_attention.h"
#include "targets/cpu/calibration.h"
#include "targets/cpu/kernels/weight_forms.h"
#include "treadle/passes/passes.h"

namespace treadle::relay::transform {

void RegisterCpuPasses() {
  using treadle::transform::RegisterPass;
  RegisterPass("Conv1DToConv2D", [] { return Conv1DToConv2D(); });
  RegisterPass("Conv3DToConv2D", [] { return Conv3DToConv2D(); });
  RegisterPass("ConvTransposeToProduct", [] { return ConvTransposeToProduct(); });
  RegisterPass("WidthToChannels", [] { return WidthToChannels(); });
  RegisterPass("SkipPaddedTaps", [] { return SkipPaddedTaps(); });
  RegisterPass("DilationToBatch", [] { return DilationToBatch(); });
  RegisterPrecisionOptions();
  RegisterPass("ComputePrecision", [] { return ComputePrecision(); });
  RegisterPass("ShareRounding", [] { return ShareRounding(); });
  RegisterPass("ChannelsLast", [] { return ChannelsLast(); });
  RegisterPass("TileBlockProducts", [] { return TileBlockProducts(); });
  RegisterPass("WidenBytes", [] { return WidenBytes(); });
  treadle::transform::RegisterPassConfig(targets::kCalibrationOption, "string",
                                         "what treadle doctor --calibrate measured of this machine, or none");
  treadle::transform::RegisterPassConfig(kJointLayouts, "bool", "blocks of channels are chosen together (true)");
  RegisterPass("PlanLayout", [] { return PlanLayout(); });
}

}  // namespace treadle::relay::transform

namespace treadle::targets {

namespace {

/// WidenBytes and PlanLayout: forms of weights that the former made to decide are those that the latter needs.
transform::Pass PlanProducts(const Target& target) {
  using namespace relay::transform;  // NOLINT(google-build-using-namespace): as below
  const transform::Pass both =
      transform::Sequential({WidenBytes(target), PlanLayout(ops::cpu::MachineOf(target), target)});
  return transform::CreateModulePass(
      [both](IRModule module, const transform::PassContext& context) {
        const ops::cpu::WeightForms forms;
        return both(std::move(module), context);
      },
      {"PlanProducts", 0, {}, "chooses number formats, kernels and layouts"});
}

}  // namespace

std::vector<transform::Pass> CpuEarlyPasses(const Target& target) {
  return {relay::transform::TileBlockProducts(ops::cpu::MachineOf(target))};
}

std::vector<transform::Pass> CpuGraphPasses(const Target& target) {
  using namespace relay::transform;  // NOLINT(google-build-using-namespace): the list reads best with bare names
  return {
      FuseAttention(),
      SimplifyExpr(),
      ConvTransposeToProduct(),
      Conv1DToConv2D(),
      Conv3DToConv2D(),
      WidthToChannels(),
      SkipPaddedTaps(),
      DilationToBatch(),
      ComputePrecision(target),
      ShareRounding(),
      ChannelsLast(),
      FoldConstant(),
      PlanProducts(target),
      // What several calls do with a constant weight (steps of a recurrent network) is one constant then.
      EliminateCommonSubexpr(),
  };
}

}  // namespace treadle::targets
