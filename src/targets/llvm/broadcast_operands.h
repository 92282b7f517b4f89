// SPDX-License-Identifier: Apache-2.0
// Broadcasts that an instruction does by itself.
#pragma once

#include <llvm/IR/Module.h>

namespace treadle::targets {

/// Lets vdpbf16ps (Intel's instruction set reference, AVX512_BF16) read a word from memory and broadcast it, where
/// nothing else uses that word. LLVM 19 selects that form of its other instructions, but for this one loads the word
/// into a register first: in tiles of one vector of columns there are as many such loads as products, and a core that
/// starts one of each per cycle takes 1.35 times as long.
void FoldBroadcastOperands(llvm::Module* module);

}  // namespace treadle::targets
