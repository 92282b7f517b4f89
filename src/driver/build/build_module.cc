// SPDX-License-Identifier: Apache-2.0
#include "treadle/driver/build_module.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "driver/lower/device_code.h"
#include "driver/lower/lower_tir.h"
#include "driver/package/kernel_module.h"
#include "driver/package/object_module.h"
#include "targets/backend.h"
#include "targets/stackvm/stackvm.h"
#include "tir/passes/passes.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/text.h"
#include "treadle/tir/verify.h"

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

/// An argument of a function that is interpreted: a tensor of the caller's seen as one of ours, or a number as a tensor
/// of one element. Checked as compiled functions check theirs.
runtime::NDArray Borrow(const runtime::ArgValue& arg, const tir::Buffer& number, const std::string& name) {
  const int code = arg.type_code(), i = arg.index();
  if (number.defined()) {
    const bool is_float = number->dtype.is_floating();
    if (code != kTreadleInt && !(is_float && code == kTreadleFloat)) {
      throw DTypeError(StrCat(name, ": Expect arg[", i, "] to be ", is_float ? "float" : "int"));
    }
    runtime::NDArray result = runtime::NDArray::Empty({1}, number->dtype);
    if (is_float) {
      const auto value = arg.As<double>();
      if (number->dtype.bits() == 64) {
        *static_cast<double*>(result.data_ptr()) = value;
      } else {
        *static_cast<float*>(result.data_ptr()) = static_cast<float>(value);
      }
    } else {
      const auto value = arg.As<int64_t>();  // little endian: the low bytes come first
      std::memcpy(result.data_ptr(), &value, static_cast<size_t>(number->dtype.bytes()));
    }
    return result;
  }
  if (code == kTreadleNull) throw Error(StrCat(name, ": arg", i, " is expected to be a tensor, not null"));
  if (code != kTreadleDLTensor && code != kTreadleNDArray) {
    throw DTypeError(StrCat(name, ": Expect arg[", i, "] to be pointer"));
  }
  const DLTensor* tensor = arg.AsDLTensor();
  if (tensor->device.device_type != kDLCPU) {
    throw Error(StrCat(name, ": arg", i, ".device_type is expected to be ", static_cast<int>(kDLCPU)));
  }
  if (code == kTreadleNDArray) return arg.As<runtime::NDArray>();
  if (!runtime::IsCompact(*tensor)) {
    throw ShapeError(StrCat(name, ": arg", i, ".strides: expected to be compact array"));
  }
  return runtime::NDArray::View(static_cast<char*>(tensor->data) + tensor->byte_offset,
                                std::vector<int64_t>(tensor->shape, tensor->shape + tensor->ndim),
                                DataType(tensor->dtype), tensor->device, nullptr);
}

/// The interpreter takes tensors only: numbers become tensors of one element. `numbers` has their buffers, by position.
tir::PrimFunc NumbersAsTensors(tir::PrimFunc func, std::vector<tir::Buffer>* numbers) {
  Array<tir::Var> params;
  Map<tir::Var, tir::Buffer> buffers = func->buffer_map;
  tir::Stmt body = func->body;
  numbers->assign(func->params.size(), tir::Buffer());
  for (size_t i = 0; i < func->params.size(); ++i) {
    const tir::Var& param = func->params[i];
    if (buffers.contains(param)) {
      params.push_back(param);
      continue;
    }
    const DataType dtype = param.dtype();
    if (dtype.is_handle() || (dtype.is_floating() && dtype.bits() < 32)) {
      throw TargetError(StrCat("parameter ", param->name_hint, " of ", dtype, " isn't supported by target stackvm"));
    }
    tir::Buffer number = tir::DeclBuffer({IntImm(DataType::Int(32), 1)}, dtype, param->name_hint + "_value");
    tir::Var handle(param->name_hint + "_handle", DataType::Handle());
    params.push_back(handle);
    buffers.Set(handle, number);
    body = tir::LetStmt(param, tir::BufferLoad(number, {IntImm(DataType::Int(32), 0)}), body);
    (*numbers)[i] = number;
  }
  if (body.same_as(func->body)) return func;
  return tir::PrimFunc(params, body, func->ret_type, buffers, func->attrs);
}

std::string SymbolOf(const GlobalVar& var, const tir::PrimFunc& func) {
  auto symbol = func->GetAttr<String>(treadle::attr::kGlobalSymbol);
  return symbol ? symbol->str() : var->name_hint;
}

/// Functions interpreted, and texts of backends that make text.
class TextModule : public runtime::ModuleNode {
 public:
  TextModule(std::string kind, std::string source, std::vector<std::pair<std::string, tir::PrimFunc>> funcs)
      : kind_(std::move(kind)), source_(std::move(source)), funcs_(std::move(funcs)) {}
  std::string module_type() const override { return kind_; }
  PackedFunc GetFunction(const std::string& name) const override {
    auto it = name == runtime::kEntryFunction
                  ? Entry()
                  : std::find_if(funcs_.begin(), funcs_.end(), [&](const auto& f) { return f.first == name; });
    if (it == funcs_.end() || kind_ != "stackvm") return PackedFunc();
    std::vector<tir::Buffer> numbers;
    tir::PrimFunc func = NumbersAsTensors(it->second, &numbers);
    return PackedFunc([func, numbers, symbol = it->first](const runtime::Args& args, runtime::RetValue*) {
      if (args.size() != static_cast<int>(numbers.size())) {
        throw Error(StrCat(symbol, ": num_args should be ", numbers.size()));
      }
      std::vector<runtime::NDArray> arrays;
      for (int i = 0; i < args.size(); ++i) {
        arrays.push_back(Borrow(args[i], numbers[static_cast<size_t>(i)], symbol));
      }
      targets::RunPrimFunc(func, arrays);
    });
  }
  std::string GetSource(const std::string&) const override { return source_; }
  /// Format "stackvm" (or a file called so): bytecode, which loads again. Any other: the text.
  void SaveToFile(const std::string& path, const std::string& format) const override {
    const bool bytecode =
        format == "stackvm" || (format.empty() && std::filesystem::path(path).extension() == ".stackvm");
    if (kind_ == "stackvm" && bytecode) return Bytecode().get()->SaveToFile(path, format);
    std::ofstream out(path, std::ios::binary);
    out << source_;
    if (!out) throw Error(StrCat("can't write ", path));
  }
  TREADLE_NODE(TextModule, runtime::ModuleNode, "driver.TextModule")

 private:
  using Functions = std::vector<std::pair<std::string, tir::PrimFunc>>;

  /// As in modules of machine code: the function that is marked, or else the first.
  Functions::const_iterator Entry() const {
    auto marked = std::find_if(funcs_.begin(), funcs_.end(),
                               [](const auto& f) { return f.second->HasNonzeroAttr("tir.is_entry_func"); });
    return marked == funcs_.end() ? funcs_.begin() : marked;
  }
  Module Bytecode() const {
    std::vector<tir::PrimFunc> funcs;
    for (const auto& [name, func] : funcs_) {
      for (const tir::Var& param : func->params) {
        if (!func->buffer_map.contains(param)) {
          throw Error(StrCat("function ", name, " can't be saved as bytecode, which takes tensors only: parameter ",
                             param->name_hint, " is a number"));
        }
      }
      funcs.push_back(func);
    }
    return MakeBytecodeModule(funcs);
  }

  std::string kind_, source_;
  Functions funcs_;  ///< in the order of the module
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
  targets::RegisterAllBackends();
  IRModule lowered = LowerModule(module, target, false);
  std::vector<tir::PrimFunc> funcs;
  std::vector<std::pair<std::string, tir::PrimFunc>> by_name;
  for (const auto& [var, func] : lowered->functions) {
    tir::PrimFunc prim = Downcast<tir::PrimFunc>(func);
    const std::string symbol = SymbolOf(var, prim);
    prim = WithAttr(prim, treadle::attr::kGlobalSymbol, String(symbol));
    const std::string fault = tir::FindFault(prim);
    if (!fault.empty()) throw Error(StrCat("function ", symbol, " isn't well formed: ", fault));
    std::vector<tir::Buffer> numbers;
    const tir::PrimFunc checked = target->kind == "stackvm" ? NumbersAsTensors(prim, &numbers) : prim;
    const std::string reason = targets::GetBackend(target->kind).check(checked, target);
    if (!reason.empty()) throw TargetError(StrCat("function ", symbol, ": ", reason));
    funcs.push_back(prim);
    by_name.emplace_back(symbol, prim);
  }
  if (funcs.empty()) throw Error("there is no loop-level function to build");
  if (target->kind == "llvm") {
    const bool given = std::any_of(funcs.begin(), funcs.end(),
                                   [](const tir::PrimFunc& f) { return f->HasNonzeroAttr("tir.is_entry_func"); });
    if (!given) funcs[0] = WithAttr(funcs[0], "tir.is_entry_func", IntImm(DataType::Bool(), 1));
  }
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
    source = targets::GetBackend(target->kind).codegen(funcs, target, {}).code;
  }
  return Module(ObjectPtr<Object>(MakeObject<TextModule>(target->kind, source, by_name)));
}

}  // namespace treadle::driver
