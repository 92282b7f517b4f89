// SPDX-License-Identifier: Apache-2.0
#include "driver/build/kept_layers.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "targets/cpu/graph/passes.h"
#include "treadle/base/suggest.h"
#include "treadle/ops/traits.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::driver {
namespace {

/// Names of the operators of a module: those that can be narrowed, and all others.
struct Names {
  std::vector<std::string> layers, others;
};

Names NamesOf(const IRModule& module) {
  Names names;
  for (const auto& [var, function] : module->functions) {
    const auto* body = function.as<relay::FunctionNode>();
    if (body == nullptr) continue;
    relay::PostOrderVisit(GetRef<relay::Function>(body), [&](const relay::Expr& expr) {
      const auto* call = expr.as<relay::CallNode>();
      if (call == nullptr || !call->span.defined()) return;
      const auto* op = call->op.as<OpNode>();
      const bool layer = op != nullptr && (op->name == "nn.attention" || ops::MixedPrecisionRuleOf(GetRef<Op>(op)) ==
                                                                             relay::MixedPrecisionKind::kAlways);
      (layer ? names.layers : names.others).push_back(call->span.str());
    });
  }
  return names;
}

constexpr const char* kHelp =
    "\nhelp: names are those of the model's products and convolutions, one per line; treadle profile lists them";

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void CheckKeptLayers(const IRModule& module, const transform::PassContext& context) {
  const std::string kept = context->GetConfigString(relay::kKeepPrecision, "");
  if (kept.empty()) return;
  const Names names = NamesOf(module);
  std::istringstream lines(kept);
  for (std::string name; std::getline(lines, name);) {
    if (name.empty() || Has(names.layers, name)) continue;
    if (Has(names.others, name)) {
      throw Error(StrCat(relay::kKeepPrecision, ": '", name,
                         "' is neither a product nor a convolution: it is computed in the model's own type anyway",
                         kHelp));
    }
    throw Error(
        StrCat(relay::kKeepPrecision, ": no layer is named '", name, "'", DidYouMean(name, names.layers), kHelp));
  }
}

}  // namespace treadle::driver
