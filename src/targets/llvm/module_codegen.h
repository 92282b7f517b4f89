// SPDX-License-Identifier: Apache-2.0
// Optimised LLVM modules, for emission and for the JIT.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>
#include <vector>

#include "treadle/targets/target_spec.h"

namespace treadle::targets {

/// The functions as optimised LLVM IR; `symbols` receives the exported names.
std::unique_ptr<llvm::Module> BuildLLVMModule(llvm::LLVMContext* context, const std::vector<tir::PrimFunc>& lowered,
                                              const Target& target, const CodegenOptions& options,
                                              llvm::TargetMachine* machine, std::vector<std::string>* symbols);

}  // namespace treadle::targets
