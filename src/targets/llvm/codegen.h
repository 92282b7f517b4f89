// SPDX-License-Identifier: Apache-2.0
// Native code through LLVM.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "treadle/targets/target_spec.h"

namespace treadle::targets {

/// Compiles low-level functions to one relocatable object without undefined symbols. Each call has its own LLVM
/// context, so that several threads may compile at once.
Artifact CodegenLLVM(const std::vector<tir::PrimFunc>& lowered, const Target& target,
                     const CodegenOptions& options = {});

/// Links an object of CodegenLLVM in memory; the runtime's functions are wired up. A TargetError where the target is
/// another machine.
std::unique_ptr<JitModule> JitObject(const std::string& object, const Target& target);
/// CodegenLLVM, then JitObject.
std::unique_ptr<JitModule> JitLLVM(const std::vector<tir::PrimFunc>& lowered, const Target& target,
                                   const CodegenOptions& options = {});

/// Of the LLVM that texts in LLVM IR must fit.
int LLVMVersionMajor();

/// Triple, CPU and feature string (as LLVM takes it) that a target means; "native" is resolved to this machine.
struct LLVMTargetInfo {
  std::string triple, cpu, features;
  std::string float_abi, abi;  ///< -mfloat-abi ("", "soft", "hard") and -mabi, for machines that have several
};
LLVMTargetInfo ResolveLLVMTarget(const Target& target);

}  // namespace treadle::targets
