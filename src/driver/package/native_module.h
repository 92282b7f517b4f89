// SPDX-License-Identifier: Apache-2.0
// Objects in memory as a runtime module: their texts, their native code, and calls in this process.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "treadle/ir/module.h"
#include "treadle/ir/target.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/params.h"
#include "treadle/targets/target_spec.h"

namespace treadle::driver {

/// Functions of a target that makes objects; its type is the target's kind. They are loaded when a function is asked
/// for: by the target's own loader, or as a library.
class NativeModuleNode final : public runtime::ModuleNode {
 public:
  /// Makes the lowered functions, for GetSource.
  using LoweredFunctions = std::function<targets::Functions()>;

  /// Kernels of a model, one or more in each object.
  NativeModuleNode(std::vector<std::string> objects, Target target, LoweredFunctions lowered);
  /// Functions in low-level form with global symbols, which are compiled to one object. A call of the module calls the
  /// one that is marked (tir.is_entry_func), or else the first.
  NativeModuleNode(const targets::Functions& functions, Target target);

  std::string module_type() const override { return target_->kind; }
  bool IsDSOExportable() const override { return true; }
  runtime::PackedFunc GetFunction(const std::string& name) const override;
  /// Formats: those of the target (TargetSpec::texts), the first by default; "s" is "asm"; "tir".
  std::string GetSource(const std::string& format) const override;
  /// Format "so" (default), "tar", "o" (one object with all functions), or what GetSource takes; by the path's ending
  /// when empty.
  void SaveToFile(const std::string& path, const std::string& format) const override;
  /// Writes a shared library of functions, with what the module imports and which function is called by default.
  void Export(const std::string& path) const;

  const std::vector<std::string>& objects() const;
  /// Whether it is of functions rather than of a model's kernels.
  bool has_entry() const { return !entry_.empty(); }
  /// Parameters that the library carries, for executors that are given none ("_lookup_linked_param").
  const runtime::ParamList& linked_params() const { return linked_params_; }
  void LinkParams(runtime::ParamList params) { linked_params_ = std::move(params); }
  const Target& target() const { return target_; }
  TREADLE_NODE(NativeModuleNode, runtime::ModuleNode, "driver.NativeModule")

 private:
  std::string OneObject() const;
  void Load() const;

  Target target_;
  LoweredFunctions lowered_;
  std::string entry_;  ///< "": a model's kernels
  std::string code_;   ///< of functions: what the only object is made of
  runtime::ParamList linked_params_;
  mutable std::once_flag assemble_, load_;
  mutable std::vector<std::string> objects_;
  mutable std::unique_ptr<targets::JitModule> jit_;  ///< where the target loads functions itself
  mutable runtime::Module library_;                  ///< else
};

}  // namespace treadle::driver
