// SPDX-License-Identifier: Apache-2.0
#include "driver/lower_tir.h"

#include "tir/passes/passes.h"
#include "treadle/ir/transform.h"

namespace treadle::driver {

LowerOptions LowerOptions::FromContext() {
  const auto context = transform::PassContext::Current();
  LowerOptions options;
  options.disable_vectorize = context->GetConfigBool("tir.disable_vectorize", false);
  options.bounds_check = context->GetConfigBool("tir.instrument_bound_checkers", false);
  options.noalias = context->GetConfigBool("tir.noalias", true);
  options.unroll_max_step = static_cast<int>(context->GetConfigInt("tir.UnrollLoop.auto_max_step", 0));
  options.unroll_max_depth = static_cast<int>(context->GetConfigInt("tir.UnrollLoop.auto_max_depth", 8));
  options.unroll_max_extent = static_cast<int>(context->GetConfigInt("tir.UnrollLoop.auto_max_extent", 0));
  return options;
}

tir::LowerConfig ConfigFor(const Target& target, const LowerOptions& options) {
  tir::LowerConfig config;
  config.features = target->Features();
  config.simple_mode = options.simple_mode;
  // C and its relatives have no vectors here.
  config.disable_vectorize = options.disable_vectorize || target->kind == "c" || target->kind == "opencl";
  config.bounds_check = options.bounds_check;
  config.unroll_max_step = options.unroll_max_step;
  config.unroll_max_depth = options.unroll_max_depth;
  config.unroll_max_extent = options.unroll_max_extent;
  return config;
}

tir::PrimFunc LowerPrimFunc(tir::PrimFunc func, const Target& target, const LowerOptions& options) {
  const tir::LowerConfig config = ConfigFor(target, options);
  if (!func->attrs->dict.contains(attr::kNoAlias)) {
    func = WithAttr(func, attr::kNoAlias, IntImm(DataType::Bool(), options.noalias ? 1 : 0));
  }
  for (const tir::LoweringPass& pass : tir::LoweringPasses()) {
    func = pass.run(std::move(func), config);
    if (options.after_pass) options.after_pass(pass.name, func);
  }
  return func;
}

}  // namespace treadle::driver
