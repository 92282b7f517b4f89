// SPDX-License-Identifier: Apache-2.0
#include "driver/build_module.h"

#include <fstream>
#include <memory>
#include <unordered_map>
#include <utility>

#include "backends/backend.h"
#include "backends/stackvm/stackvm.h"
#include "driver/lower_tir.h"
#include "driver/object_module.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/text.h"

namespace treadle::driver {

using runtime::Module;
using runtime::PackedFunc;

namespace {

bool IsLowered(const tir::PrimFunc& func) { return func->body.as<tir::BlockRealizeNode>() == nullptr; }

std::string SymbolOf(const GlobalVar& var, const tir::PrimFunc& func) {
  auto symbol = func->GetAttr<String>(treadle::attr::kGlobalSymbol);
  return symbol ? symbol->str() : var->name_hint;
}

/// Functions interpreted, and texts of backends that make text.
class TextModule : public runtime::ModuleNode {
 public:
  TextModule(std::string kind, std::string source, std::unordered_map<std::string, tir::PrimFunc> funcs)
      : kind_(std::move(kind)), source_(std::move(source)), funcs_(std::move(funcs)) {}
  std::string module_type() const override { return kind_; }
  PackedFunc GetFunction(const std::string& name) const override {
    auto it = name == runtime::kEntryFunction ? funcs_.begin() : funcs_.find(name);
    if (it == funcs_.end() || kind_ != "stackvm") return PackedFunc();
    tir::PrimFunc func = it->second;
    return PackedFunc([func](const runtime::Args& args, runtime::RetValue*) {
      std::vector<runtime::NDArray> arrays;
      for (int i = 0; i < args.size(); ++i) arrays.push_back(args[i].As<runtime::NDArray>());
      backends::RunPrimFunc(func, arrays);
    });
  }
  std::string GetSource(const std::string&) const override { return source_; }
  void SaveToFile(const std::string& path, const std::string&) const override {
    std::ofstream out(path, std::ios::binary);
    out << source_;
    if (!out) throw Error(StrCat("can't write ", path));
  }
  TREADLE_NODE(TextModule, runtime::ModuleNode, "driver.TextModule")

 private:
  std::string kind_, source_;
  std::unordered_map<std::string, tir::PrimFunc> funcs_;
};

}  // namespace

IRModule LowerModule(const IRModule& module, const Target& target, bool simple_mode) {
  LowerOptions options = LowerOptions::FromContext();
  options.simple_mode = simple_mode;
  IRModule result = IRModule::Empty();
  for (const auto& [var, func] : module->functions) {
    if (!func.as<tir::PrimFuncNode>()) continue;
    tir::PrimFunc prim = Downcast<tir::PrimFunc>(func);
    result.CopyOnWrite()->Add(var, IsLowered(prim) ? prim : LowerPrimFunc(prim, target, options));
  }
  return result;
}

Module BuildModule(const IRModule& module, const Target& target) {
  backends::RegisterAllBackends();
  IRModule lowered = LowerModule(module, target, false);
  std::vector<tir::PrimFunc> funcs;
  std::unordered_map<std::string, tir::PrimFunc> by_name;
  for (const auto& [var, func] : lowered->functions) {
    tir::PrimFunc prim = Downcast<tir::PrimFunc>(func);
    const std::string symbol = SymbolOf(var, prim);
    prim = WithAttr(prim, treadle::attr::kGlobalSymbol, String(symbol));
    const std::string reason = backends::GetBackend(target->kind).check(prim, target);
    if (!reason.empty()) throw TargetError(StrCat("function ", symbol, ": ", reason));
    funcs.push_back(prim);
    by_name.emplace(symbol, prim);
  }
  if (funcs.empty()) throw Error("there is no loop-level function to build");
  if (target->kind == "llvm" || target->kind == "c") {
    return Module(ObjectPtr<Object>(MakeObject<ObjectModuleNode>(funcs, lowered, target)));
  }
  std::string source;
  if (target->kind == "stackvm") {
    source = tir::AsText(lowered);
  } else {
    source = backends::GetBackend(target->kind).codegen(funcs, target, {}).code;
  }
  return Module(ObjectPtr<Object>(MakeObject<TextModule>(target->kind, source, by_name)));
}

}  // namespace treadle::driver
