// SPDX-License-Identifier: Apache-2.0
#include "driver/build_module.h"

#include <fstream>
#include <memory>
#include <unordered_map>
#include <utility>

#include "backends/backend.h"
#include "backends/stackvm/stackvm.h"
#include "driver/device_code.h"
#include "driver/lower_tir.h"
#include "driver/object_module.h"
#include "tir/passes/passes.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/text.h"

namespace treadle::driver {

using runtime::Module;
using runtime::PackedFunc;

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
    lowered = lowered && node.as<tir::BlockNode>() == nullptr;
  });
  return lowered;
}

/// A tensor of the caller's, seen as one of ours.
runtime::NDArray Borrow(const runtime::ArgValue& arg) {
  if (arg.type_code() != kTreadleDLTensor) return arg.As<runtime::NDArray>();
  const DLTensor* tensor = arg.AsDLTensor();
  if (tensor->device.device_type != kDLCPU || !runtime::IsCompact(*tensor)) {
    throw Error(StrCat("argument ", arg.index(), ": the interpreter takes compact tensors on the CPU"));
  }
  return runtime::NDArray::View(static_cast<char*>(tensor->data) + tensor->byte_offset,
                                std::vector<int64_t>(tensor->shape, tensor->shape + tensor->ndim),
                                DataType(tensor->dtype), tensor->device, nullptr);
}

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
      for (int i = 0; i < args.size(); ++i) arrays.push_back(Borrow(args[i]));
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
    prim = IsLowered(prim) ? tir::LowerIntrin(prim, ConfigFor(target, options)) : LowerPrimFunc(prim, target, options);
    result.CopyOnWrite()->Add(var, prim);
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
  if (IsDevice(target)) {
    DeviceCode code = GenerateDeviceCode(funcs, target);
    Module host(ObjectPtr<Object>(MakeObject<ObjectModuleNode>(code.host, lowered, HostOf(target))));
    host.Import(code.module);
    return host;
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
