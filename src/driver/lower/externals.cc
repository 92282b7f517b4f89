// SPDX-License-Identifier: Apache-2.0
#include "driver/lower/externals.h"

#include <algorithm>
#include <utility>

#include "external/lower.h"
#include "treadle/ir/structural.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/registry.h"

namespace treadle::driver {

using relay::Function;
using runtime::Module;
using runtime::PackedFunc;

namespace {

std::string CompilerOf(const Function& func) { return func->GetAttr<String>(attr::kCompiler)->str(); }

std::string SymbolOf(const Function& func) {
  auto symbol = func->GetAttr<String>(attr::kGlobalSymbol);
  if (!symbol) {
    throw Error(StrCat("an external function for \"", CompilerOf(func),
                       "\" has no name: the attribute global_symbol is missing"));
  }
  return symbol->str();
}

/// The constants of an external function by name: those that "relay.ext.<compiler>.constant_updater" says, else all
/// that its body holds, in order of visit.
std::vector<std::pair<std::string, runtime::NDArray>> ConstantsOf(const Function& func) {
  std::vector<std::pair<std::string, runtime::NDArray>> constants;
  const std::string symbol = SymbolOf(func);
  if (runtime::Registry::Get(StrCat("relay.ext.", CompilerOf(func), ".constant_updater"))) {
    for (const auto& [name, value] : external::ConstantsOfRegion(func)) constants.emplace_back(name.str(), value);
    return constants;
  }
  relay::PostOrderVisit(func->body, [&](const relay::Expr& e) {
    const auto* constant = e.as<relay::ConstantNode>();
    if (constant != nullptr) constants.emplace_back(StrCat(symbol, "_const_", constants.size()), constant->data);
  });
  return constants;
}

std::vector<std::string> NamesOf(const Module& module, const char* function) {
  std::vector<std::string> names;
  PackedFunc get = module.GetFunction(function);
  if (!get) return names;
  for (const String& name : get().As<Array<String>>()) names.push_back(name.str());
  return names;
}

}  // namespace

std::string Externals::Declare(const Function& func) {
  std::string symbol = SymbolOf(func);
  auto [it, inserted] = by_symbol_.emplace(symbol, func);
  if (inserted) {
    list_.push_back(func);
  } else if (!StructuralEqual(it->second, func)) {
    throw Error(StrCat("two external functions are called \"", symbol, "\" (for ", CompilerOf(it->second), " and ",
                       CompilerOf(func), "); each needs a name of its own"));
  }
  return symbol;
}

ExternalCode CompileExternals(const std::vector<Function>& functions, runtime::ParamList* params) {
  ExternalCode code;
  for (const Function& func : functions) {
    Module module = external::CompileRegion(func);
    bool known = std::any_of(code.modules.begin(), code.modules.end(),
                             [&](const Module& other) { return other.same_as(module); });
    if (!known) code.modules.push_back(module);
    // Sources hold their constants themselves.
    std::vector<std::string> wanted;
    if (!module->IsDSOExportable()) wanted = NamesOf(module, "get_const_vars");
    for (auto& [name, value] : ConstantsOf(func)) {
      if (std::find(wanted.begin(), wanted.end(), name) != wanted.end()) params->emplace_back(name, value);
    }
    if (!wanted.empty()) code.constants[SymbolOf(func)] = wanted;
  }
  return code;
}

}  // namespace treadle::driver
