// SPDX-License-Identifier: Apache-2.0
// LLVM's view of a target.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>

#include "targets/llvm/codegen.h"

namespace treadle::targets {

/// Initialises LLVM's targets once.
void InitializeLLVM();
/// A machine that generates position-independent code. Throws TargetError naming what LLVM doesn't know.
std::unique_ptr<llvm::TargetMachine> MakeTargetMachine(const LLVMTargetInfo& info, int opt_level);

}  // namespace treadle::targets
