// SPDX-License-Identifier: Apache-2.0
// Compiled loop-level functions as a module: their texts, their native code, and calls in this process.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "targets/llvm/codegen.h"
#include "treadle/ir/module.h"
#include "treadle/ir/target.h"
#include "treadle/runtime/module.h"
#include "treadle/tir/function.h"

namespace treadle::driver {

/// Functions of a target that makes native code: "llvm", or "c" by way of the machine's C compiler (which runs when
/// native code is first asked for).
class ObjectModuleNode : public runtime::ModuleNode {
 public:
  /// `funcs` in low-level form, each with a global symbol; `lowered` is what source "tir" shows. The first function is
  /// the one that a call of the module calls, unless one has the attribute tir.is_entry_func.
  ObjectModuleNode(std::vector<tir::PrimFunc> funcs, IRModule lowered, Target target);

  std::string module_type() const override { return target_->kind; }
  runtime::PackedFunc GetFunction(const std::string& name) const override;
  /// llvm: "ll" (default), "asm" (or "s"), "tir"; c: "c" (default), "tir".
  std::string GetSource(const std::string& format) const override;
  /// Formats "o", "so", "ll", "s" (or "asm"), "c", "tir"; by the path's ending when empty.
  void SaveToFile(const std::string& path, const std::string& format) const override;
  bool IsDSOExportable() const override { return true; }
  /// Writes a shared library with what the module imports.
  void Export(const std::string& path) const;
  TREADLE_NODE(ObjectModuleNode, runtime::ModuleNode, "driver.ObjectModule")

 private:
  void Load() const;
  std::string Object() const;

  std::vector<tir::PrimFunc> funcs_;
  IRModule lowered_;
  Target target_;
  std::string entry_;
  std::string code_;  ///< object or C
  mutable std::once_flag load_;
  mutable std::unique_ptr<targets::JitModule> jit_;  ///< llvm for this machine
  mutable runtime::Module library_;                  ///< else
};

}  // namespace treadle::driver
