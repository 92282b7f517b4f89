// SPDX-License-Identifier: Apache-2.0
// Debian's LLVM asks Polly for passes when it optimises while linking, which Treadle never does; Polly isn't linked.
#include <llvm/Passes/PassPlugin.h>

llvm::PassPluginLibraryInfo getPollyPluginInfo();

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "none", "", [](llvm::PassBuilder&) {}};
}
