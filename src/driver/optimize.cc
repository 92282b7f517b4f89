// SPDX-License-Identifier: Apache-2.0
#include "driver/optimize.h"

#include "treadle/relay/passes.h"

namespace treadle::driver {

using namespace relay::transform;  // NOLINT(google-build-using-namespace): the list reads best with bare names

std::vector<Pass> OptimizationPasses(const Target& target) {
  std::vector<Pass> passes = {
      InferType(),
      RemoveUnusedFunctions(),
      // What only training needs goes first: everything after sees arithmetic.
      SimplifyInference(),
      DynamicToStatic(),
      FoldConstant(),
      EliminateCommonSubexpr(),
      SimplifyExpr(),
      CanonicalizeCast(),
      CanonicalizeOps(),
      FoldConstant(),
      // Scales are constants now, sums are additions, and weights are still in the layouts that models state.
      BackwardFoldScaleAxis(),
      ForwardFoldScaleAxis(),
      FoldConstant(),
  };
  // Layouts are chosen when the graph has its final operators, and before fusion, which must not cross a change.
  if (target->HasKey("cpu")) passes.push_back(PlanLayout());
  passes.push_back(SimplifyExpr());
  passes.push_back(FoldConstant());
  passes.push_back(EliminateCommonSubexpr());
  passes.push_back(FuseOps());
  passes.push_back(InferType());
  return passes;
}

IRModule Optimize(IRModule module, const Target& target) {
  return Sequential(OptimizationPasses(target), "optimize")(module);
}

}  // namespace treadle::driver
