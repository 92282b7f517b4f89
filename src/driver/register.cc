// SPDX-License-Identifier: Apache-2.0
// The one list of what the compiler consists of.
#include <mutex>

#include "backends/backend.h"
#include "driver/constant_evaluator.h"
#include "treadle/driver/compile.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/passes.h"

namespace treadle::driver {

void RegisterAll() {
  static std::once_flag once;
  std::call_once(once, [] {
    tir::RegisterTirOps();
    ops::RegisterAllOps();
    relay::RegisterPasses();
    backends::RegisterAllBackends();
    relay::SetConstantEvaluator(EvaluateConstant);
  });
}

}  // namespace treadle::driver
