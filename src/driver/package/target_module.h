// SPDX-License-Identifier: Apache-2.0
// Modules of code that isn't objects.
#pragma once

#include "treadle/ir/target.h"
#include "treadle/runtime/module.h"
#include "treadle/targets/target_spec.h"

namespace treadle::driver {

/// A module without functions: what stands for no kernels where there are no objects. Its type is "c", its text ";".
class EmptyModuleNode final : public runtime::ModuleNode {
 public:
  std::string module_type() const override { return "c"; }
  bool IsDSOExportable() const override { return true; }
  runtime::PackedFunc GetFunction(const std::string&) const override { return {}; }
  std::string GetSource(const std::string&) const override { return ";"; }
  void SaveToFile(const std::string& path, const std::string& format) const override;
  TREADLE_NODE(EmptyModuleNode, runtime::ModuleNode, "driver.EmptyModule")
};

/// Functions in low-level form with global symbols as a module: that of a registered function
/// "target.build.<kind>"(IRModule, Target) where there is one, else of the target's form: modules of its own, or text.
runtime::Module MakeTargetModule(const targets::Functions& functions, const Target& target);

}  // namespace treadle::driver
