// SPDX-License-Identifier: Apache-2.0
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ThreadSafeModule.h>

#include "backends/llvm/module_codegen.h"
#include "backends/llvm/target_machine.h"
#include "treadle/runtime/c_backend_api.h"

namespace treadle::backends {
namespace {

std::string ToText(llvm::Error error) { return llvm::toString(std::move(error)); }

class LLJitModule : public JitModule {
 public:
  LLJitModule(std::unique_ptr<llvm::MemoryBuffer> object, const LLVMTargetInfo& info) {
    llvm::orc::JITTargetMachineBuilder builder{llvm::Triple(info.triple)};
    builder.setCPU(info.cpu);
    auto jit = llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(builder)).create();
    if (!jit) throw InternalError(StrCat("internal error: LLVM's JIT: ", ToText(jit.takeError())));
    jit_ = std::move(*jit);
    if (auto error = jit_->addObjectFile(std::move(object))) {
      throw InternalError(StrCat("internal error: LLVM's JIT: ", ToText(std::move(error))));
    }
    Wire("TreadleBackendParallelLaunch", reinterpret_cast<void*>(&TreadleBackendParallelLaunch));
    Wire("TreadleBackendAllocWorkspace", reinterpret_cast<void*>(&TreadleBackendAllocWorkspace));
    Wire("TreadleBackendFreeWorkspace", reinterpret_cast<void*>(&TreadleBackendFreeWorkspace));
    Wire("TreadleBackendSetLastError", reinterpret_cast<void*>(&TreadleBackendSetLastError));
    Wire("TreadleBackendGetFuncFromEnv", reinterpret_cast<void*>(&TreadleBackendGetFuncFromEnv));
    Wire("TreadleBackendFuncCall", reinterpret_cast<void*>(&TreadleBackendFuncCall));
  }

  void* GetSymbol(const std::string& name) const override {
    auto address = jit_->lookup(name);
    if (!address) {
      llvm::consumeError(address.takeError());
      return nullptr;
    }
    return address->toPtr<void*>();
  }

 private:
  void Wire(const std::string& name, void* function) {
    if (void* variable = GetSymbol("__" + name)) *static_cast<void**>(variable) = function;
  }
  std::unique_ptr<llvm::orc::LLJIT> jit_;
};

}  // namespace

std::unique_ptr<JitModule> JitLLVM(const std::vector<tir::PrimFunc>& lowered, const Target& target,
                                   const CodegenOptions& options) {
  Artifact artifact = CodegenLLVM(lowered, target, options);
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(artifact.code, options.module_name);
  return std::make_unique<LLJitModule>(std::move(buffer), ResolveLLVMTarget(target));
}

}  // namespace treadle::backends
