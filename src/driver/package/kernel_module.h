// SPDX-License-Identifier: Apache-2.0
// What code generation leaves in memory, as runtime modules.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "treadle/ir/target.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/params.h"
#include "treadle/tir/function.h"

namespace treadle::driver {

/// Native objects. They are linked and loaded when a function is asked for. Type "llvm", or "c" where a compiler of C
/// made them.
class KernelModuleNode final : public runtime::ModuleNode {
 public:
  /// Makes the lowered functions, for GetSource.
  using LoweredFunctions = std::function<std::vector<tir::PrimFunc>()>;

  KernelModuleNode(std::vector<std::string> objects, Target target, LoweredFunctions lowered);
  std::string module_type() const override { return target_->kind; }
  bool IsDSOExportable() const override { return true; }
  runtime::PackedFunc GetFunction(const std::string& name) const override;
  /// llvm: "ll" (default), "asm" or "s"; c: "c" (default); "tir".
  std::string GetSource(const std::string& format) const override;
  /// Format "so" (default), "o" (one object with all kernels), or what GetSource takes.
  void SaveToFile(const std::string& path, const std::string& format) const override;
  const std::vector<std::string>& objects() const { return objects_; }
  /// Parameters that the library carries, for executors that are given none ("_lookup_linked_param").
  const runtime::ParamList& linked_params() const { return linked_params_; }
  void LinkParams(runtime::ParamList params) { linked_params_ = std::move(params); }
  const Target& target() const { return target_; }
  TREADLE_NODE(KernelModuleNode, runtime::ModuleNode, "driver.KernelModule")

 private:
  std::string OneObject() const;
  runtime::Module LoadNow() const;

  std::vector<std::string> objects_;
  Target target_;
  LoweredFunctions lowered_;
  runtime::ParamList linked_params_;
  mutable std::once_flag load_;
  mutable runtime::Module loaded_;
};

/// Source text without code: what stands for no functions where there is no native code. Type "c".
runtime::Module MakeEmptySourceModule();

/// Bytecode functions. Type "stackvm".
runtime::Module MakeBytecodeModule(const std::vector<tir::PrimFunc>& functions);

/// Code for a target whose code isn't native, as a module: of a registered function "target.build.<kind>"(IRModule,
/// Target) where there is one. `functions` are in low-level form.
runtime::Module BuildDeviceModule(const Target& target, const std::vector<tir::PrimFunc>& functions);

/// Adds the loader of bytecode modules.
void RegisterModuleLoaders();

}  // namespace treadle::driver
