// SPDX-License-Identifier: Apache-2.0
// The one list of what the compiler consists of.
#include <mutex>

#include "driver/evaluate/constant_evaluator.h"
#include "driver/graph/graph_executor_codegen.h"
#include "driver/lower/build_targets.h"
#include "driver/lower/lower_tir.h"
#include "driver/package/export_library.h"
#include "driver/scripts/build_functions.h"
#include "driver/scripts/engine_functions.h"
#include "ir/accuracy.h"
#include "passes/fuse_rows.h"
#include "passes/fuse_siblings.h"
#include "targets/cpu/kernels/kernels.h"
#include "treadle/driver/compile.h"
#include "treadle/external/codegen.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/transform.h"
#include "treadle/ops/compute.h"
#include "treadle/passes/passes.h"
#include "treadle/runtime/registry.h"
#include "treadle/targets/target_spec.h"

namespace treadle::driver {

void RegisterAll() {
  static std::once_flag once;
  std::call_once(once, [] {
    tir::RegisterTirOps();
    ops::RegisterAllOps();
    ops::cpu::RegisterKernels();
    relay::RegisterPasses();
    targets::RegisterAllTargets();
    relay::SetConstantEvaluator(EvaluateConstant);
    external::RegisterExternalCodegens();
    runtime::Registry::RegisterTyped(
        "runtime.module.loadfile_tar", [](std::string path, std::string) { return LoadArchive(path); },
        /*override=*/true);
    RegisterBuildFunctions();
    RegisterEngineFunctions();
    RegisterLowerOptions();
    transform::RegisterAccuracyOption();
    transform::RegisterPassConfig(kFallbackDevice, "int",
                                  "device type of what isn't annotated, with several devices (1)");
    transform::RegisterPassConfig(relay::kFuseRows, "bool",
                                  "kernels that reduce rows and those that read them become one (true)");
    transform::RegisterPassConfig(relay::kFuseSiblings, "bool",
                                  "element-wise kernels that read one tensor too large for a cache become one");
    transform::RegisterPassConfig(kParallelBranches, "bool",
                                  "branches of the graph run side by side where that is expected to be quicker");
    transform::RegisterPassConfig(kPlannerOption, "string", "memory planner: arena (default) or relay");
  });
}

}  // namespace treadle::driver
