// SPDX-License-Identifier: Apache-2.0
#include "driver/optimize.h"

#include <algorithm>

#include "treadle/relay/expr_functor.h"
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

IRModule Optimize(IRModule module, const Target& target, const FusionObserver& before_fusion) {
  std::vector<Pass> passes = OptimizationPasses(target);
  if (before_fusion) {
    auto fuse = std::find_if(passes.begin(), passes.end(), [](const Pass& p) { return p->info.name == "FuseOps"; });
    auto observe = [&](IRModule before, const PassContext& context) {
      before_fusion(before, context);
      return before;
    };
    passes.insert(fuse, CreateModulePass(observe, {"ObserveFusion", 0, {}, "Shows what fusion gets"}));
  }
  return Sequential(passes, "optimize")(module);
}

IRModule BindParams(IRModule module, const std::vector<std::pair<std::string, runtime::NDArray>>& params) {
  if (params.empty()) return module;
  auto main = Downcast<relay::Function>(module->Lookup("main"));
  Map<relay::Var, relay::Expr> bindings;
  for (const auto& [name, value] : params) {
    relay::Var found;
    for (const relay::Var& param : main->params) {
      if (param->name_hint() != name) continue;
      if (found.defined()) throw Error(StrCat("main has several parameters named '", name, "'"));
      found = param;
    }
    if (!found.defined()) throw Error(StrCat("main has no parameter '", name, "' to bind a value to"));
    bindings.Set(found, relay::Constant(value, Span(name)));
  }
  IRModule result = module;
  result.CopyOnWrite()->Add(module->GetGlobalVar("main"), Downcast<relay::Function>(relay::Bind(main, bindings)));
  return result;
}

}  // namespace treadle::driver
