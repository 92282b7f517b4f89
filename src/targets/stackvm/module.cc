// SPDX-License-Identifier: Apache-2.0
// Programs of the interpreter as a module, and the target that makes such modules.
#include <cstring>
#include <filesystem>
#include <optional>

#include "runtime/file_io.h"
#include "targets/builtin.h"
#include "targets/cpu/machine.h"
#include "targets/stackvm/stackvm.h"
#include "treadle/ir/module.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/runtime/registry.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/text.h"

namespace treadle::targets {
namespace {

using runtime::Module;
using runtime::PackedFunc;

/// Whether pointers of tensors on the device can be followed here: those of devices with memory of their own can't.
bool IsHostMemory(const DLDevice& device) {
  switch (device.device_type) {
    case kDLCUDA:
    case kDLOpenCL:
    case kDLVulkan:
    case kDLMetal:
    case kDLROCM:
      return false;
    default:
      return true;
  }
}

/// An argument of a function that is interpreted: a tensor of the caller's seen as one of ours, or a number as a tensor
/// of one element. Checked as compiled functions check theirs.
runtime::NDArray Borrow(const runtime::ArgValue& arg, const std::optional<DataType>& number, const std::string& name) {
  const int code = arg.type_code(), i = arg.index();
  if (number.has_value()) {
    const bool is_float = number->is_floating();
    if (code != kTreadleInt && !(is_float && code == kTreadleFloat)) {
      throw DTypeError(StrCat(name, ": Expect arg[", i, "] to be ", is_float ? "float" : "int"));
    }
    runtime::NDArray result = runtime::NDArray::Empty({1}, *number);
    if (is_float) {
      const auto value = arg.As<double>();
      if (number->bits() == 64) {
        *static_cast<double*>(result.data_ptr()) = value;
      } else {
        *static_cast<float*>(result.data_ptr()) = static_cast<float>(value);
      }
    } else {
      const auto value = arg.As<int64_t>();  // little endian: the low bytes come first
      std::memcpy(result.data_ptr(), &value, static_cast<size_t>(number->bytes()));
    }
    return result;
  }
  if (code == kTreadleNull) throw Error(StrCat(name, ": arg", i, " is expected to be a tensor, not null"));
  if (code != kTreadleDLTensor && code != kTreadleNDArray) {
    throw DTypeError(StrCat(name, ": Expect arg[", i, "] to be pointer"));
  }
  const DLTensor* tensor = arg.AsDLTensor();
  if (!IsHostMemory(tensor->device)) {
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

/// The interpreter takes tensors only: numbers become tensors of one element. `numbers` has their dtypes, by position.
tir::PrimFunc NumbersAsTensors(tir::PrimFunc func, std::vector<std::optional<DataType>>* numbers) {
  Array<tir::Var> params;
  Map<tir::Var, tir::Buffer> buffers = func->buffer_map;
  tir::Stmt body = func->body;
  numbers->assign(func->params.size(), std::nullopt);
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
    (*numbers)[i] = dtype;
  }
  if (body.same_as(func->body)) return func;
  return tir::PrimFunc(params, body, func->ret_type, buffers, func->attrs);
}

struct Function {
  std::shared_ptr<const VmProgram> program;
  std::vector<std::optional<DataType>> numbers;  ///< by position: the dtype of a parameter that is a number
  std::vector<std::string> params;               ///< names; none of functions that were loaded
};

std::string SymbolOf(const tir::PrimFunc& func) { return func->GetAttr<String>(attr::kGlobalSymbol)->str(); }

Function Compile(const tir::PrimFunc& func) {
  Function result;
  const tir::PrimFunc tensors = NumbersAsTensors(func, &result.numbers);
  for (const tir::Var& param : func->params) result.params.push_back(param->name_hint);
  result.program = std::make_shared<const VmProgram>(CompileToVm(tensors));
  return result;
}

class StackVMModuleNode final : public runtime::ModuleNode {
 public:
  /// `functions`: the entry first. `text`: of the functions they were made from, where that is known.
  StackVMModuleNode(std::vector<Function> functions, std::string text)
      : functions_(std::move(functions)), text_(std::move(text)) {}
  std::string module_type() const override { return "stackvm"; }

  PackedFunc GetFunction(const std::string& name) const override {
    for (const Function& function : functions_) {
      if (name != runtime::kEntryFunction && name != function.program->name) continue;
      return PackedFunc([function](const runtime::Args& args, runtime::RetValue*) {
        const std::string& symbol = function.program->name;
        if (args.size() != static_cast<int>(function.numbers.size())) {
          throw Error(StrCat(symbol, ": num_args should be ", function.numbers.size()));
        }
        std::vector<runtime::NDArray> arrays;
        for (int i = 0; i < args.size(); ++i) {
          arrays.push_back(Borrow(args[i], function.numbers[static_cast<size_t>(i)], symbol));
        }
        function.program->Run(arrays);
      });
    }
    return PackedFunc();
  }

  /// "tir" (the usual one, of modules that weren't loaded from a file), "stackvm": the instructions.
  std::string GetSource(const std::string& format) const override {
    if (format == "tir" || (format.empty() && !text_.empty())) return text_;
    std::string text;
    for (const Function& function : functions_) text += function.program->Disassemble();
    return text;
  }

  void SaveToBinary(runtime::ByteWriter* writer) const override {
    writer->Write<uint64_t>(functions_.size());
    for (const Function& function : functions_) {
      for (size_t i = 0; i < function.numbers.size(); ++i) {
        if (!function.numbers[i]) continue;
        throw Error(StrCat("function ", function.program->name,
                           " can't be saved as bytecode, which takes tensors only: parameter ", function.params[i],
                           " is a number"));
      }
      writer->WriteString(function.program->Save());
    }
  }

  /// Format "stackvm" (or a file called so): bytecode, which loads again. Any other: the text.
  void SaveToFile(const std::string& path, const std::string& format) const override {
    const bool bytecode =
        format == "stackvm" || (format.empty() && std::filesystem::path(path).extension() == ".stackvm");
    runtime::ByteWriter bytes;
    if (bytecode) SaveToBinary(&bytes);
    runtime::WriteFile(path, bytecode ? bytes.bytes() : GetSource(format));
  }
  TREADLE_NODE(StackVMModuleNode, runtime::ModuleNode, "targets.StackVMModule")

 private:
  std::vector<Function> functions_;
  std::string text_;
};

Module Load(const std::string& bytes) {
  runtime::ByteReader reader(bytes, "stackvm module");
  std::vector<Function> functions;
  for (uint64_t n = reader.ReadCount(8); n > 0; --n) {
    Function function;
    function.program = std::make_shared<const VmProgram>(VmProgram::Load(std::string(reader.ReadString())));
    function.numbers.resize(function.program->params.size());
    for (const Function& other : functions) {
      if (other.program->name != function.program->name) continue;
      reader.Fail(StrCat("two functions are called \"", function.program->name, "\""));
    }
    functions.push_back(std::move(function));
  }
  reader.ExpectEnd();
  return Module(ObjectPtr<Object>(MakeObject<StackVMModuleNode>(std::move(functions), "")));
}

std::string WhyNot(const tir::PrimFunc& func, const Target&) {
  try {
    Compile(func);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

Module MakeStackVMModule(const std::vector<tir::PrimFunc>& functions) {
  std::vector<Function> compiled;
  IRModule module = IRModule::Empty();
  bool marked = false;
  for (const tir::PrimFunc& func : functions) {
    module.CopyOnWrite()->Add(GlobalVar(SymbolOf(func)), func);
    const bool entry = !marked && func->HasNonzeroAttr("tir.is_entry_func");
    compiled.insert(entry ? compiled.begin() : compiled.end(), Compile(func));
    marked |= entry;
  }
  return Module(ObjectPtr<Object>(MakeObject<StackVMModuleNode>(std::move(compiled), tir::AsText(module))));
}

void RegisterStackVMLoaders() {
  runtime::Registry::RegisterTyped(
      "runtime.module.loadbinary_stackvm", [](std::string bytes) { return Load(bytes); }, /*override=*/true);
  runtime::Registry::RegisterTyped(
      "runtime.module.loadfile_stackvm", [](std::string path, std::string) { return Load(runtime::ReadFile(path)); },
      /*override=*/true);
}

TargetSpec StackVMTarget() {
  TargetSpec spec;
  spec.kind.name = "stackvm";
  spec.kind.doc = "interpreter, the reference for all others";
  spec.kind.keys = {"cpu"};
  spec.kind.features = PortableCpuFeatures;
  spec.form = ModuleForm::kModule;
  spec.on_register = RegisterStackVMLoaders;
  spec.check = WhyNot;
  spec.texts = {"stackvm"};
  spec.make_module = [](const Functions& functions, const Target&) { return MakeStackVMModule(functions); };
  return spec;
}

}  // namespace treadle::targets
