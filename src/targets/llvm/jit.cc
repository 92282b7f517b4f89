// SPDX-License-Identifier: Apache-2.0
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ThreadSafeModule.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include "runtime/cpu_topology.h"
#include "targets/llvm/module_codegen.h"
#include "targets/llvm/target_machine.h"
#include "treadle/runtime/c_backend_api.h"
#include "treadle/runtime/system_lib.h"
#include "treadle/runtime/unpack_arguments.h"

namespace treadle::targets {
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
    jit_->getExecutionSession().setErrorReporter([this](llvm::Error error) { problem_ = ToText(std::move(error)); });
    if (auto error = jit_->addObjectFile(std::move(object))) {
      throw InternalError(StrCat("internal error: LLVM's JIT: ", ToText(std::move(error))));
    }
    const std::vector<std::pair<std::string, void*>> functions = {
        {"TreadleBackendParallelLaunch", reinterpret_cast<void*>(&TreadleBackendParallelLaunch)},
        {"TreadleBackendAllocWorkspace", reinterpret_cast<void*>(&TreadleBackendAllocWorkspace)},
        {"TreadleBackendFreeWorkspace", reinterpret_cast<void*>(&TreadleBackendFreeWorkspace)},
        {"TreadleBackendSetLastError", reinterpret_cast<void*>(&TreadleBackendSetLastError)},
        {"TreadleBackendGetFuncFromEnv", reinterpret_cast<void*>(&TreadleBackendGetFuncFromEnv)},
        {"TreadleBackendFuncCall", reinterpret_cast<void*>(&TreadleBackendFuncCall)},
        {"TreadleBackendUnpackArguments", reinterpret_cast<void*>(&TreadleBackendUnpackArguments)},
        {"TreadleBackendRegisterSystemLibSymbol", reinterpret_cast<void*>(&TreadleBackendRegisterSystemLibSymbol)},
        {"TreadleBackendForgetSystemLibSymbol", reinterpret_cast<void*>(&TreadleBackendForgetSystemLibSymbol)}};
    for (const auto& [name, function] : functions) Wire(name, function);
    for (const auto& [name, function] : functions) SetVariable(name, function);
  }

  void* GetSymbol(const std::string& name) const override {
    auto address = jit_->lookup(name);
    if (!address) {
      // Absent is one thing; there but not to be linked, as it calls what isn't there, another.
      llvm::consumeError(address.takeError());
      if (!problem_.empty()) throw Error(StrCat("the compiled code can't be linked: ", problem_));
      return nullptr;
    }
    return address->toPtr<void*>();
  }

  void SetContext(void* module_node) override {
    if (void* variable = GetSymbol("__treadle_module_ctx")) *static_cast<void**>(variable) = module_node;
  }

 private:
  /// Code calls it through a pointer variable, or by its name (-system-lib).
  void Wire(const std::string& name, void* function) {
    if (auto error = jit_->getMainJITDylib().define(llvm::orc::absoluteSymbols(
            {{jit_->mangleAndIntern(name),
              {llvm::orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported}}}))) {
      throw InternalError(StrCat("internal error: LLVM's JIT: ", ToText(std::move(error))));
    }
  }
  void SetVariable(const std::string& name, void* function) {
    if (void* variable = GetSymbol("__" + name)) *static_cast<void**>(variable) = function;
  }
  mutable std::string problem_;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
};

}  // namespace

std::unique_ptr<JitModule> JitObject(const std::string& object, const Target& target) {
  const LLVMTargetInfo info = ResolveLLVMTarget(target);
  const llvm::Triple host(llvm::sys::getDefaultTargetTriple());
  if (llvm::Triple(info.triple).getArch() != host.getArch()) {
    throw TargetError(StrCat("code for ", info.triple, " can't run in this process on ", host.str(),
                             "; export it and load it there"));
  }
  runtime::HostCpuFeatures();  // asks the operating system for what the code may need
  return std::make_unique<LLJitModule>(llvm::MemoryBuffer::getMemBufferCopy(object, "treadle"), info);
}

std::unique_ptr<JitModule> JitLLVM(const std::vector<tir::PrimFunc>& lowered, const Target& target,
                                   const CodegenOptions& options) {
  return JitObject(CodegenLLVM(lowered, target, options).code, target);
}

}  // namespace treadle::targets
