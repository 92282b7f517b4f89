// SPDX-License-Identifier: Apache-2.0
#include "treadle/driver/build_module.h"

#include <algorithm>

#include "driver/lower/device_code.h"
#include "driver/lower/lower_tir.h"
#include "driver/package/native_module.h"
#include "driver/package/target_module.h"
#include "tir/passes/passes.h"
#include "treadle/targets/target_spec.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/verify.h"

namespace treadle::driver {

using runtime::Module;

namespace {

/// Whether nothing is left for lowering but intrinsics, which may be lowered twice.
bool IsLowered(const tir::PrimFunc& func) {
  bool lowered = true;
  tir::PostOrderVisit(func->body, [&](const ObjectRef& node) {
    if (const auto* op = node.as<tir::BufferLoadNode>()) lowered = lowered && op->indices.size() <= 1;
    if (const auto* op = node.as<tir::BufferStoreNode>()) lowered = lowered && op->indices.size() <= 1;
    if (const auto* op = node.as<tir::ForNode>()) {
      lowered = lowered && op->kind != tir::ForKind::kVectorized && op->kind != tir::ForKind::kUnrolled;
    }
    if (const auto* op = node.as<tir::AttrStmtNode>()) lowered = lowered && op->node.as<tir::IterVarNode>() == nullptr;
    lowered = lowered && node.as<tir::BlockNode>() == nullptr;
  });
  return lowered;
}

std::string SymbolOf(const GlobalVar& var, const tir::PrimFunc& func) {
  auto symbol = func->GetAttr<String>(treadle::attr::kGlobalSymbol);
  return symbol ? symbol->str() : var->name_hint;
}

}  // namespace

IRModule LowerModule(const IRModule& module, const Target& target, bool simple_mode) {
  LowerOptions options = LowerOptions::FromContext();
  options.simple_mode = simple_mode;
  IRModule result = IRModule::Empty();
  for (const auto& [var, func] : module->functions) {
    if (!func.as<tir::PrimFuncNode>()) continue;
    tir::PrimFunc prim = Downcast<tir::PrimFunc>(func);
    if (options.disable_assert) prim = WithoutAsserts(prim);
    prim = IsLowered(prim) ? tir::LowerIntrin(prim, ConfigFor(target, options)) : LowerPrimFunc(prim, target, options);
    result.CopyOnWrite()->Add(var, prim);
  }
  return result;
}

Module BuildModule(const IRModule& module, const Target& target) {
  const targets::TargetSpec& spec = targets::GetTargetSpec(target);
  IRModule lowered = LowerModule(module, target, false);
  targets::Functions functions;
  for (const auto& [var, func] : lowered->functions) {
    tir::PrimFunc prim = Downcast<tir::PrimFunc>(func);
    const std::string symbol = SymbolOf(var, prim);
    prim = WithAttr(prim, treadle::attr::kGlobalSymbol, String(symbol));
    const std::string fault = tir::FindFault(prim);
    if (!fault.empty()) throw Error(StrCat("function ", symbol, " isn't well formed: ", fault));
    const std::string reason = targets::WhyNotCompiled(prim, target);
    if (!reason.empty()) throw TargetError(StrCat("function ", symbol, ": ", reason));
    functions.push_back(prim);
  }
  if (functions.empty()) throw Error("there is no loop-level function to build");
  if (spec.form == targets::ModuleForm::kObjects) {
    const bool given = std::any_of(functions.begin(), functions.end(),
                                   [](const tir::PrimFunc& f) { return f->HasNonzeroAttr("tir.is_entry_func"); });
    if (!given) functions[0] = WithAttr(functions[0], "tir.is_entry_func", IntImm(DataType::Bool(), 1));
    return Module(ObjectPtr<Object>(MakeObject<NativeModuleNode>(functions, target)));
  }
  if (spec.form == targets::ModuleForm::kDevice) {
    DeviceCode code = GenerateDeviceCode(functions, target);
    Module host(ObjectPtr<Object>(MakeObject<NativeModuleNode>(code.host, HostOf(target))));
    host.Import(code.module);
    return host;
  }
  return MakeTargetModule(functions, target);
}

}  // namespace treadle::driver
