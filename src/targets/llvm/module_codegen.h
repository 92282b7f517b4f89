// SPDX-License-Identifier: Apache-2.0
// Optimised LLVM modules, for emission and for the JIT.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <string>
#include <vector>

#include "treadle/targets/target_spec.h"

namespace treadle::targets {

/// Adds the functions to an empty module as optimised LLVM IR; `symbols` receives the exported names.
void BuildLLVMModule(llvm::Module* module, const std::vector<tir::PrimFunc>& lowered, const Target& target,
                     const CodegenOptions& options, llvm::TargetMachine* machine, std::vector<std::string>* symbols);

}  // namespace treadle::targets
