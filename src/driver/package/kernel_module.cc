// SPDX-License-Identifier: Apache-2.0
#include "driver/package/kernel_module.h"

#include <filesystem>
#include <fstream>
#include <map>

#include "driver/package/export_library.h"
#include "targets/backend.h"
#include "targets/c/toolchain.h"
#include "targets/stackvm/program.h"
#include "targets/stackvm/stackvm.h"
#include "targets/temporary_directory.h"
#include "treadle/ir/module.h"
#include "treadle/runtime/registry.h"
#include "treadle/tir/text.h"

namespace treadle::driver {

using runtime::Module;
using runtime::NDArray;
using runtime::PackedFunc;

namespace {

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw Error(StrCat("can't write ", path));
}

class SourceModuleNode final : public runtime::ModuleNode {
 public:
  explicit SourceModuleNode(std::string source) : source_(std::move(source)) {}
  std::string module_type() const override { return "c"; }
  bool IsDSOExportable() const override { return true; }
  PackedFunc GetFunction(const std::string&) const override { return PackedFunc(); }
  std::string GetSource(const std::string&) const override { return source_; }
  void SaveToFile(const std::string& path, const std::string&) const override { WriteText(path, source_); }
  TREADLE_NODE(SourceModuleNode, runtime::ModuleNode, "driver.SourceModule")

 private:
  std::string source_;
};

/// The arguments as tensors; DLTensors are looked at in place.
std::vector<NDArray> TensorArgs(const runtime::Args& args) {
  std::vector<NDArray> tensors;
  for (int i = 0; i < args.size(); ++i) {
    if (args[i].type_code() == kTreadleNDArray) {
      tensors.push_back(args[i].As<NDArray>());
      continue;
    }
    const DLTensor* tensor = args[i].AsDLTensor();
    if (tensor == nullptr) args[i].ThrowMismatch("tensor");
    std::vector<int64_t> shape(tensor->shape, tensor->shape + tensor->ndim);
    tensors.push_back(NDArray::View(static_cast<char*>(tensor->data) + tensor->byte_offset, shape,
                                    DataType(tensor->dtype), tensor->device, nullptr));
  }
  return tensors;
}

class BytecodeModuleNode final : public runtime::ModuleNode {
 public:
  explicit BytecodeModuleNode(std::string bytes) : bytes_(std::move(bytes)) {
    runtime::ByteReader reader(bytes_, "stackvm module");
    for (uint64_t n = reader.ReadCount(8); n > 0; --n) {
      auto program = std::make_shared<targets::VmProgram>(targets::VmProgram::Load(std::string(reader.ReadString())));
      if (!programs_.emplace(program->name, program).second) {
        reader.Fail(StrCat("two functions are called \"", program->name, "\""));
      }
    }
    reader.ExpectEnd();
  }
  std::string module_type() const override { return "stackvm"; }
  PackedFunc GetFunction(const std::string& name) const override {
    auto it = name == runtime::kEntryFunction ? programs_.begin() : programs_.find(name);
    if (it == programs_.end()) return PackedFunc();
    return PackedFunc(
        [program = it->second](runtime::Args args, runtime::RetValue*) { program->Run(TensorArgs(args)); });
  }
  std::string GetSource(const std::string&) const override {
    std::string text;
    for (const auto& [name, program] : programs_) text += program->Disassemble();
    return text;
  }
  void SaveToBinary(runtime::ByteWriter* writer) const override { writer->WriteRaw(bytes_.data(), bytes_.size()); }
  void SaveToFile(const std::string& path, const std::string&) const override { WriteText(path, bytes_); }
  TREADLE_NODE(BytecodeModuleNode, runtime::ModuleNode, "driver.BytecodeModule")

 private:
  std::string bytes_;
  std::map<std::string, std::shared_ptr<targets::VmProgram>> programs_;
};

Module MakeBytecode(std::string bytes) {
  return Module(ObjectPtr<Object>(MakeObject<BytecodeModuleNode>(std::move(bytes))));
}

}  // namespace

KernelModuleNode::KernelModuleNode(std::vector<std::string> objects, Target target, LoweredFunctions lowered)
    : objects_(std::move(objects)), target_(std::move(target)), lowered_(std::move(lowered)) {}

PackedFunc KernelModuleNode::GetFunction(const std::string& name) const {
  if (objects_.empty() && linked_params_.empty()) return PackedFunc();
  std::call_once(load_, [this] { loaded_ = LoadNow(); });
  return loaded_.GetFunction(name);
}

Module KernelModuleNode::LoadNow() const {
  targets::TemporaryDirectory directory;
  const std::string path = directory.Path("kernels.so");
  runtime::ArtifactWriter writer;
  if (!linked_params_.empty()) AddLinkedParams(linked_params_, &writer);
  WriteLibrary(objects_, linked_params_.empty() ? nullptr : &writer, path, target_);
  Module loaded = Module::LoadFromFile(path, "so");  // stays mapped
  for (const Module& import : imports()) loaded.Import(import);
  return loaded;
}

std::string KernelModuleNode::GetSource(const std::string& format) const {
  const std::string wanted = format.empty() ? (target_->kind == "llvm" ? "ll" : target_->kind) : format;
  const std::vector<tir::PrimFunc> functions = lowered_ ? lowered_() : std::vector<tir::PrimFunc>();
  if (wanted == "tir") {
    std::string text;
    for (const tir::PrimFunc& function : functions) text += tir::AsText(function) + "\n";
    return text;
  }
  if (functions.empty()) return target_->kind == "llvm" ? "; ModuleID = 'empty_module'\n" : ";";
  targets::CodegenOptions options;
  options.emit_ll = wanted == "ll";
  options.emit_asm = wanted == "asm" || wanted == "s";
  const targets::Artifact artifact = targets::GetBackend(target_->kind).codegen(functions, target_, options);
  if (options.emit_ll && target_->kind == "llvm") return artifact.ll;
  if (options.emit_asm && target_->kind == "llvm") return artifact.assembly;
  if (wanted == artifact.format && wanted != "o") return artifact.code;
  throw Error(StrCat("no source in format '", wanted,
                     "'; there are: ", target_->kind == "llvm" ? "ll, asm" : artifact.format, ", tir"));
}

void KernelModuleNode::SaveToFile(const std::string& path, const std::string& format) const {
  std::string kind = format;
  if (kind.empty()) kind = std::filesystem::path(path).extension().string();
  if (!kind.empty() && kind[0] == '.') kind.erase(0, 1);
  if (kind.empty() || kind == "so" || kind == "tar") return ExportModule(GetRef<Module>(this), path);
  WriteText(path, kind == "o" ? OneObject() : GetSource(kind));
}

std::string KernelModuleNode::OneObject() const {
  if (objects_.size() == 1) return objects_[0];
  const std::vector<tir::PrimFunc> functions = lowered_ ? lowered_() : std::vector<tir::PrimFunc>();
  targets::CodegenOptions options;
  options.opt_level = 3;
  const targets::Artifact artifact = targets::GetBackend(target_->kind).codegen(functions, target_, options);
  return artifact.format == "c" ? targets::CompileC(artifact.code, target_) : artifact.code;
}

Module MakeEmptySourceModule() { return Module(ObjectPtr<Object>(MakeObject<SourceModuleNode>(";"))); }

Module MakeBytecodeModule(const std::vector<tir::PrimFunc>& functions) {
  runtime::ByteWriter writer;
  writer.Write<uint64_t>(functions.size());
  for (const tir::PrimFunc& function : functions) writer.WriteString(targets::CompileToVm(function).Save());
  return MakeBytecode(std::move(writer.bytes()));
}

Module BuildDeviceModule(const Target& target, const std::vector<tir::PrimFunc>& functions) {
  if (PackedFunc build = runtime::Registry::Get("target.build." + target->kind)) {
    IRModule module = IRModule::Empty();
    for (const tir::PrimFunc& function : functions) {
      module.CopyOnWrite()->Add(GlobalVar(function->GetAttr<String>(attr::kGlobalSymbol)->str()), function);
    }
    return build(module, target).As<Module>();
  }
  if (target->kind == "stackvm") return MakeBytecodeModule(functions);
  throw TargetError(StrCat("this build can't make modules of target kind \"", target->kind, "\""));
}

void RegisterModuleLoaders() {
  runtime::Registry::RegisterTyped(
      "runtime.module.loadbinary_stackvm", [](std::string bytes) { return MakeBytecode(std::move(bytes)); },
      /*override=*/true);
  runtime::Registry::RegisterTyped(
      "runtime.module.loadfile_stackvm",
      [](std::string path, std::string) {
        std::ifstream in(path, std::ios::binary);
        if (!in) throw Error(StrCat("can't open ", path));
        return MakeBytecode(std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()));
      },
      /*override=*/true);
}

}  // namespace treadle::driver
