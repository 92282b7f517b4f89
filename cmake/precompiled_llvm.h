// SPDX-License-Identifier: Apache-2.0
// As precompiled_compiler.h, for targets/llvm: LLVM's IR and what builds it.
#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include "precompiled_compiler.h"
