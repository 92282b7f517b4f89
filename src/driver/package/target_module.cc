// SPDX-License-Identifier: Apache-2.0
#include "driver/package/target_module.h"

#include "runtime/file_io.h"
#include "treadle/ir/module.h"
#include "treadle/runtime/registry.h"

namespace treadle::driver {

using runtime::Module;
using runtime::PackedFunc;

namespace {

/// Text for other tools.
class TextModuleNode final : public runtime::ModuleNode {
 public:
  TextModuleNode(std::string kind, std::string text) : kind_(std::move(kind)), text_(std::move(text)) {}
  std::string module_type() const override { return kind_; }
  PackedFunc GetFunction(const std::string&) const override { return {}; }
  std::string GetSource(const std::string&) const override { return text_; }
  void SaveToFile(const std::string& path, const std::string&) const override { runtime::WriteFile(path, text_); }
  TREADLE_NODE(TextModuleNode, runtime::ModuleNode, "driver.TextModule")

 private:
  std::string kind_, text_;
};

}  // namespace

void EmptyModuleNode::SaveToFile(const std::string& path, const std::string&) const { runtime::WriteFile(path, ";"); }

Module MakeTargetModule(const targets::Functions& functions, const Target& target) {
  if (PackedFunc build = runtime::Registry::Get("target.build." + target->kind)) {
    IRModule module = IRModule::Empty();
    for (const tir::PrimFunc& function : functions) {
      module.CopyOnWrite()->Add(GlobalVar(function->GetAttr<String>(attr::kGlobalSymbol)->str()), function);
    }
    return build(module, target).As<Module>();
  }
  const targets::TargetSpec& spec = targets::GetTargetSpec(target);
  if (spec.make_module) return spec.make_module(functions, target);
  return Module(ObjectPtr<Object>(MakeObject<TextModuleNode>(target->kind, spec.codegen(functions, target, {}).code)));
}

}  // namespace treadle::driver
