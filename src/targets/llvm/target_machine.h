// SPDX-License-Identifier: Apache-2.0
// LLVM's view of a target.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "targets/llvm/codegen.h"

namespace treadle::targets {

/// Initialises LLVM's targets once.
void InitializeLLVM();
/// A machine that generates position-independent code. Throws TargetError naming what LLVM doesn't know.
std::unique_ptr<llvm::TargetMachine> MakeTargetMachine(const LLVMTargetInfo& info, int opt_level);
/// As MakeTargetMachine; what this thread asked for last is kept: making one, and its tables of the processor for the
/// first function, takes as long as compiling a small kernel. Valid until the thread asks for another.
llvm::TargetMachine* ThreadTargetMachine(const LLVMTargetInfo& info, int opt_level);
/// To be called when memory ran out in a function that used the thread's machine: it is leaked, and the next is new.
void LeakThreadTargetMachine();
/// Whether the processor or the options have a feature, by LLVM's name for it.
bool HasFeature(const LLVMTargetInfo& info, const std::string& name);

}  // namespace treadle::targets
