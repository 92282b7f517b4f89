// SPDX-License-Identifier: Apache-2.0
#include "driver/package/native_module.h"

#include <algorithm>
#include <filesystem>

#include "driver/package/export_library.h"
#include "runtime/file_io.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/tir/text.h"

namespace treadle::driver {

using runtime::Module;
using runtime::PackedFunc;

namespace {

std::string EntryOf(const targets::Functions& functions) {
  std::string entry;
  for (const tir::PrimFunc& func : functions) {
    auto symbol = func->GetAttr<String>(treadle::attr::kGlobalSymbol);
    TREADLE_ICHECK(symbol.has_value()) << "a function without global symbol";
    if (func->HasNonzeroAttr("tir.is_entry_func")) return symbol->str();
    if (entry.empty()) entry = symbol->str();
  }
  return entry;
}

std::string ExtensionOf(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  return extension.empty() ? extension : extension.substr(1);
}

std::string TextOf(const targets::Functions& functions) {
  std::string text;
  for (const tir::PrimFunc& function : functions) text += tir::AsText(function) + "\n";
  return text;
}

}  // namespace

NativeModuleNode::NativeModuleNode(std::vector<std::string> objects, Target target, LoweredFunctions lowered)
    : target_(std::move(target)), lowered_(std::move(lowered)), objects_(std::move(objects)) {}

NativeModuleNode::NativeModuleNode(const targets::Functions& functions, Target target)
    : target_(std::move(target)),
      lowered_([functions] { return functions; }),
      entry_(EntryOf(functions)),
      code_(targets::GetTargetSpec(target_).codegen(functions, target_, {}).code) {}

const std::vector<std::string>& NativeModuleNode::objects() const {
  std::call_once(assemble_, [this] {
    if (has_entry()) objects_.push_back(targets::AssembleObject(code_, target_));
  });
  return objects_;
}

void NativeModuleNode::Load() const {
  const targets::TargetSpec& spec = targets::GetTargetSpec(target_);
  if (has_entry() && spec.jit) {
    jit_ = spec.jit(objects()[0], target_);
    jit_->SetContext(const_cast<NativeModuleNode*>(this));
    return;
  }
  runtime::TemporaryDirectory directory;
  const std::string path = directory.Path("kernels.so");
  runtime::ArtifactWriter writer;
  if (!linked_params_.empty()) AddLinkedParams(linked_params_, &writer);
  WriteLibrary(objects(), linked_params_.empty() ? nullptr : &writer, path, targets::GetLinkOptions(target_));
  library_ = Module::LoadFromFile(path, "so");  // stays mapped
  for (const Module& import : imports()) library_.Import(import);
}

PackedFunc NativeModuleNode::GetFunction(const std::string& name) const {
  if (objects().empty() && linked_params_.empty()) return PackedFunc();
  std::call_once(load_, [this] { Load(); });
  const std::string& symbol = has_entry() && name == runtime::kEntryFunction ? entry_ : name;
  if (jit_ == nullptr) return library_.GetFunction(symbol, /*query_imports=*/has_entry());
  void* address = jit_->GetSymbol(symbol);
  if (address == nullptr) return PackedFunc();
  return PackedFunc::FromC(reinterpret_cast<TreadlePackedCFunc>(address), nullptr, GetRef<Module>(this), symbol);
}

std::string NativeModuleNode::GetSource(const std::string& format) const {
  const std::vector<std::string>& formats = targets::GetTargetSpec(target_).texts;
  std::string wanted = format == "s" ? "asm" : format;
  if (wanted.empty() && !formats.empty()) wanted = formats[0];
  const bool known = std::find(formats.begin(), formats.end(), wanted) != formats.end();
  if (!known && wanted != "tir") {
    std::string all;
    for (const std::string& name : formats) all += name + ", ";
    throw Error(StrCat("no source in format '", wanted, "'; there are: ", all, "tir"));
  }
  const targets::Functions functions = lowered_ ? lowered_() : targets::Functions();
  if (!known) return TextOf(functions);
  targets::CodegenOptions options;
  options.texts = {wanted};
  if (functions.empty()) options.module_name = "empty_module";
  return targets::GetTargetSpec(target_).codegen(functions, target_, options).texts[wanted];
}

void NativeModuleNode::SaveToFile(const std::string& path, const std::string& format) const {
  const std::string kind = format.empty() ? ExtensionOf(path) : format;
  if (kind.empty() || kind == "so" || kind == "tar") return ExportModule(GetRef<Module>(this), path);
  runtime::WriteFile(path, kind == "o" ? OneObject() : GetSource(kind));
}

std::string NativeModuleNode::OneObject() const {
  if (objects().size() == 1) return objects()[0];
  const targets::Functions functions = lowered_ ? lowered_() : targets::Functions();
  return targets::AssembleObject(targets::GetTargetSpec(target_).codegen(functions, target_, {}).code, target_);
}

void NativeModuleNode::Export(const std::string& path) const {
  runtime::ArtifactWriter writer;
  writer.AddSection("entry", entry_);
  if (!imports().empty()) {
    runtime::ByteWriter bytes;
    runtime::SaveImports(GetRef<Module>(this), &bytes);
    writer.AddSection("imports", bytes.bytes());
  }
  WriteLibrary(objects(), &writer, path, targets::GetLinkOptions(target_));
}

}  // namespace treadle::driver
