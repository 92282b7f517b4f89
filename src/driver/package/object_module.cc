// SPDX-License-Identifier: Apache-2.0
#include "driver/package/object_module.h"

#include <filesystem>
#include <fstream>

#include "driver/package/export_library.h"
#include "targets/backend.h"
#include "targets/c/toolchain.h"
#include "targets/temporary_directory.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/tir/text.h"

namespace treadle::driver {

using runtime::Module;
using runtime::PackedFunc;

namespace {

std::string EntryOf(const std::vector<tir::PrimFunc>& funcs) {
  std::string entry;
  for (const tir::PrimFunc& func : funcs) {
    auto symbol = func->GetAttr<String>(treadle::attr::kGlobalSymbol);
    TREADLE_ICHECK(symbol.has_value()) << "a function without global symbol";
    if (entry.empty() || func->HasNonzeroAttr("tir.is_entry_func")) entry = symbol->str();
  }
  return entry;
}

std::string ExtensionOf(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  return extension.empty() ? extension : extension.substr(1);
}

}  // namespace

ObjectModuleNode::ObjectModuleNode(std::vector<tir::PrimFunc> funcs, IRModule lowered, Target target)
    : funcs_(std::move(funcs)), lowered_(std::move(lowered)), target_(std::move(target)), entry_(EntryOf(funcs_)) {
  code_ = targets::GetBackend(target_->kind).codegen(funcs_, target_, {}).code;
}

void ObjectModuleNode::Load() const {
  if (target_->kind == "llvm") {
    jit_ = targets::JitObject(code_, target_);
    jit_->SetContext(const_cast<ObjectModuleNode*>(this));
    return;
  }
  targets::TemporaryDirectory directory;
  const std::string path = directory.Path("object.so");
  Export(path);
  library_ = Module::LoadFromFile(path);  // stays mapped
}

PackedFunc ObjectModuleNode::GetFunction(const std::string& name) const {
  std::call_once(load_, [this] { Load(); });
  const std::string& symbol = name == runtime::kEntryFunction ? entry_ : name;
  if (library_.defined()) return library_.GetFunction(symbol, true);
  void* address = jit_->GetSymbol(symbol);
  if (address == nullptr) return PackedFunc();
  return PackedFunc::FromC(reinterpret_cast<TreadlePackedCFunc>(address), nullptr, GetRef<Module>(this), symbol);
}

std::string ObjectModuleNode::GetSource(const std::string& format) const {
  if (format == "tir") return tir::AsText(lowered_);
  targets::CodegenOptions options;
  options.emit_ll = target_->kind == "llvm" && (format.empty() || format == "ll");
  options.emit_asm = target_->kind == "llvm" && (format == "asm" || format == "s");
  const bool own = target_->kind != "llvm" && (format.empty() || format == target_->kind);
  if (own) return code_;
  if (!options.emit_ll && !options.emit_asm) {
    throw Error(StrCat("no source of format '", format, "'; there are ",
                       target_->kind == "llvm" ? "ll, asm" : target_->kind, " and tir"));
  }
  targets::Artifact artifact = targets::GetBackend(target_->kind).codegen(funcs_, target_, options);
  return options.emit_ll ? artifact.ll : artifact.assembly;
}

std::string ObjectModuleNode::Object() const {
  return target_->kind == "c" ? targets::CompileC(code_, target_) : code_;
}

void ObjectModuleNode::SaveToFile(const std::string& path, const std::string& format) const {
  const std::string kind = format.empty() ? ExtensionOf(path) : format;
  if (kind == "so") return Export(path);
  std::ofstream out(path, std::ios::binary);
  out << (kind == "o" ? Object() : GetSource(kind));
  if (!out.flush()) throw Error(StrCat("can't write ", path));
}

void ObjectModuleNode::Export(const std::string& path) const {
  runtime::ArtifactWriter writer;
  writer.AddSection("entry", entry_);
  if (!imports().empty()) {
    runtime::ByteWriter bytes;
    runtime::SaveImports(GetRef<Module>(this), &bytes);
    writer.AddSection("imports", bytes.bytes());
  }
  WriteLibrary({Object()}, &writer, path, target_);
}

}  // namespace treadle::driver
