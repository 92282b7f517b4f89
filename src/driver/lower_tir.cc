// SPDX-License-Identifier: Apache-2.0
#include "driver/lower_tir.h"

#include <algorithm>
#include <iterator>

#include "tir/passes/passes.h"
#include "treadle/ir/transform.h"

namespace treadle::driver {

namespace {

constexpr const char* kUnrollOption = "tir.UnrollLoop";

/// An integer of the option tir.UnrollLoop, a map.
int UnrollOption(const transform::PassContext& context, const std::string& name, int otherwise) {
  auto options = context->config.Get(kUnrollOption);
  if (!options) return otherwise;
  static const char* const kNames[] = {"auto_max_step", "auto_max_depth", "auto_max_extent"};
  int found = otherwise;
  for (const auto& [key, value] : Downcast<Map<String, ObjectRef>>(*options)) {
    const bool known = std::any_of(std::begin(kNames), std::end(kNames), [&](const char* n) { return key.str() == n; });
    const auto* number = value.as<IntImmNode>();
    if (!known || number == nullptr) {
      throw Error(StrCat(kUnrollOption, " has no integer option '", key.str(),
                         "'; it has: auto_max_step, auto_max_depth, auto_max_extent"));
    }
    if (key.str() == name) found = static_cast<int>(number->value);
  }
  return found;
}

}  // namespace

void RegisterLowerOptions() {
  transform::RegisterPassConfig("tir.disable_vectorize", "bool", "vectorized loops become serial ones (false)");
  transform::RegisterPassConfig("tir.instrument_bound_checkers", "bool", "each access is checked at run time (false)");
  transform::RegisterPassConfig("tir.noalias", "bool", "parameters of functions don't overlap (true)");
  transform::RegisterPassConfig(kUnrollOption, "map",
                                "auto_max_step (0), auto_max_depth (8), auto_max_extent (0): which serial loops are "
                                "unrolled");
}

LowerOptions LowerOptions::FromContext() {
  const auto context = transform::PassContext::Current();
  LowerOptions options;
  options.disable_vectorize = context->GetConfigBool("tir.disable_vectorize", false);
  options.bounds_check = context->GetConfigBool("tir.instrument_bound_checkers", false);
  options.noalias = context->GetConfigBool("tir.noalias", true);
  options.unroll_max_step = UnrollOption(context, "auto_max_step", 0);
  options.unroll_max_depth = UnrollOption(context, "auto_max_depth", 8);
  options.unroll_max_extent = UnrollOption(context, "auto_max_extent", 0);
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
