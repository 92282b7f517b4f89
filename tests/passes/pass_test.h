// SPDX-License-Identifier: Apache-2.0
// Text in, text out tests of passes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "treadle/ir/structural.h"
#include "treadle/ops/compute.h"
#include "treadle/passes/passes.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"

namespace treadle::testing {

using relay::transform::Pass;
using relay::transform::PassContext;

/// A module from text; the version line may be left out, and "fn (...) {...}" stands for main.
inline IRModule Parse(std::string text) {
  ops::RegisterAllOps();
  relay::RegisterPasses();
  size_t start = text.find_first_not_of(" \n");
  if (start != std::string::npos && text.compare(start, 2, "fn") == 0) text = "def @main" + text.substr(start + 2);
  if (text.find("#[version") == std::string::npos) text = "#[version = \"0.0.5\"]\n" + text;
  return relay::ParseModule(text);
}

inline std::string Show(const IRModule& module) {
  relay::TextOptions options;
  options.show_types = false;
  options.show_version = false;
  return relay::AsText(module, options);
}

/// Runs `pass` on `before` and compares with `after`; the input must stay as it is.
inline void ExpectPass(const Pass& pass, const std::string& before, const std::string& after) {
  IRModule module = Parse(before);
  std::string text = Show(module);
  IRModule result = relay::InferTypes(pass(module));
  EXPECT_EQ(Show(module), text) << "the pass changed its input";
  IRModule expected = Parse(after);
  EXPECT_TRUE(StructuralEqual(result, expected)) << "got:\n"
                                                 << Show(result) << "expected:\n"
                                                 << Show(expected) << StructuralDifference(result, expected);
}

/// The fused functions of all functions of the module: "add exp squeeze/1" is a function of one parameter.
inline std::vector<std::string> Groups(const IRModule& module) {
  std::vector<std::string> groups;
  for (const auto& [var, base] : module->functions) {
    relay::PostOrderVisit(base, [&](const relay::Expr& e) {
      const auto* func = e.as<relay::FunctionNode>();
      if (func == nullptr || func->attrs->dict.count(attr::kPrimitive) == 0) return;
      std::vector<std::string> names;
      relay::PostOrderVisit(func->body, [&](const relay::Expr& inner) {
        const auto* call = inner.as<relay::CallNode>();
        if (call != nullptr && call->op.as<OpNode>()) names.push_back(call->op.as<OpNode>()->name);
      });
      std::sort(names.begin(), names.end());
      std::string text;
      for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
      groups.push_back(text + "/" + std::to_string(func->params.size()));
    });
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

}  // namespace treadle::testing
