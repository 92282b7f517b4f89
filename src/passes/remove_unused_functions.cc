// SPDX-License-Identifier: Apache-2.0
// RemoveUnusedFunctions: keeps the global functions that the entries reach.
#include <unordered_set>

#include "passes/pass_util.h"

namespace treadle::relay {

std::vector<GlobalVar> GlobalsUsedBy(const Expr& expr) {
  std::vector<GlobalVar> result;
  std::unordered_set<const Object*> seen;
  PostOrderVisit(expr, [&](const Expr& e) {
    if (e.as<GlobalVarNode>() && seen.insert(e.get()).second) result.push_back(Downcast<GlobalVar>(e));
  });
  return result;
}

namespace transform {

Pass RemoveUnusedFunctions(std::vector<std::string> entries) {
  return CreateModulePass(
      [entries](IRModule module, const PassContext&) {
        std::unordered_set<std::string> reached;
        std::vector<std::string> stack;
        for (const std::string& entry : entries) {
          if (module->ContainGlobalVar(entry)) stack.push_back(entry);
        }
        while (!stack.empty()) {
          std::string name = stack.back();
          stack.pop_back();
          if (!reached.insert(name).second || !module->ContainGlobalVar(name)) continue;
          BaseFunc func = module->Lookup(name);
          if (func.as<FunctionNode>() == nullptr) continue;
          for (const GlobalVar& used : GlobalsUsedBy(func)) stack.push_back(used->name_hint);
        }
        if (reached.size() == module->functions.size()) return module;
        Map<GlobalVar, BaseFunc> functions;
        Map<String, GlobalVar> names;
        for (const auto& [var, func] : module->functions) {
          if (reached.count(var->name_hint) == 0) continue;
          functions.Set(var, func);
          names.Set(var->name_hint, var);
        }
        auto* node = module.CopyOnWrite();
        node->functions = functions;
        node->global_vars = names;
        return module;
      },
      {"RemoveUnusedFunctions", 1, {}, "Removes global functions that the entries don't reach"});
}

}  // namespace transform
}  // namespace treadle::relay
