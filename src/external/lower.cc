// SPDX-License-Identifier: Apache-2.0
#include "external/lower.h"

#include "treadle/base/error.h"
#include "treadle/external/c_source_module.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/plugin.h"
#include "treadle/runtime/registry.h"

namespace treadle::external {

using runtime::NDArray;
using runtime::PackedFunc;
using runtime::Registry;

namespace {

std::string OpsOf(const Function& region) {
  std::string text;
  int count = 0;
  relay::PostOrderVisit(region->body, [&](const relay::Expr& e) {
    const auto* call = e.as<relay::CallNode>();
    const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
    if (op == nullptr || ++count > 8) return;
    text += StrCat(text.empty() ? "" : ", ", op->name);
  });
  return count > 8 ? StrCat(text, " and ", count - 8, " more") : text;
}

std::string NameOf(const Function& region) { return region->GetAttr<String>(attr::kCompiler)->str(); }

std::string SymbolOf(const Function& region) {
  auto symbol = region->GetAttr<String>(attr::kGlobalSymbol);
  if (!symbol) {
    throw Error(StrCat("a function for external code generator '", NameOf(region), "' has no global_symbol"));
  }
  return symbol->str();
}

[[noreturn]] void Fail(const Function& region, const std::string& problem) {
  throw Error(StrCat("external code generator '", NameOf(region), "' failed on @", SymbolOf(region), ": ", problem),
              ExitCode::kUnsupported);
}

/// Calls relay.ext.<name>.
Module CallCodegen(const Function& region) {
  const std::string name = NameOf(region);
  PackedFunc compile = Registry::Get("relay.ext." + name);
  if (!compile) {
    std::string known;
    for (const std::string& other : ListCodegens()) known += (known.empty() ? "" : ", ") + other;
    throw TargetError(StrCat("@", SymbolOf(region), " is for external code generator '", name,
                             "', which doesn't exist (no function relay.ext.", name,
                             " is registered); there are: ", known.empty() ? "none" : known));
  }
  runtime::RetValue result;
  try {
    result = compile(WithAttr(region, attr::kCompiler, ObjectRef()));
  } catch (const std::exception& error) {
    Fail(region, StrCat(error.what(), " (operators: ", OpsOf(region), ")"));
  }
  const bool is_object = result.type_code() == kTreadleObject || result.type_code() == kTreadleModule;
  ObjectRef object = is_object ? result.view().AsObjectRef() : ObjectRef();
  if (!object.defined() || !object->IsInstance<runtime::ModuleNode>()) {
    Fail(region,
         StrCat("it returned ", object.defined() ? object->type_key() : runtime::TypeCodeName(result.type_code()),
                " where a module is expected"));
  }
  return Downcast<Module>(object);
}

/// Gives a source its constants, and compiles it once to find what is wrong with it now.
void CheckSource(const Function& region, const CSourceModuleNode* source) {
  bool found = false;
  for (const std::string& function : source->functions) found |= function == SymbolOf(region);
  if (!found) Fail(region, "its C source doesn't list that function");
  Map<String, NDArray> constants = ConstantsOfRegion(region);
  for (const std::string& name : source->constants) {
    auto value = constants.Get(name);
    if (!value) Fail(region, StrCat("its C source wants constant '", name, "', which the region doesn't have"));
    source->SetConstant(name, *value);
  }
  try {
    source->Object();
  } catch (const Error& error) {
    Fail(region, error.what());
  }
}

/// Refuses modules that lack the function, and those of types that nothing can store or load again.
void CheckModule(const Function& region, const Module& module) {
  const std::string type = module.module_type(), loader = "runtime.module.loadbinary_" + type;
  if (!module.GetFunction(SymbolOf(region), true)) {
    Fail(region, StrCat("it returned a module of type '", type, "' without that function"));
  }
  std::string problem;
  if (module->IsDSOExportable() || Registry::Get(loader)) return;
  if (runtime::LoadRuntimeOfKind(type, &problem) && Registry::Get(loader)) return;
  Fail(region, StrCat("it returned a module of type '", type, "', which can't be loaded again: there is no function ",
                      loader, problem.empty() ? "" : " (" + problem + ")"));
}

}  // namespace

Map<String, NDArray> ConstantsOfRegion(const Function& region) {
  PackedFunc updater = Registry::Get(StrCat("relay.ext.", NameOf(region), ".constant_updater"));
  if (!updater) return DefaultConstants(region, SymbolOf(region));
  try {
    return updater(region, SymbolOf(region)).As<Map<String, NDArray>>();
  } catch (const std::exception& error) {
    Fail(region, StrCat("its constant updater: ", error.what()));
  }
}

Module CompileRegion(const Function& region) {
  Module module = CallCodegen(region);
  if (const auto* source = module.as<CSourceModuleNode>()) {
    CheckSource(region, source);
  } else {
    CheckModule(region, module);
  }
  return module;
}

}  // namespace treadle::external
