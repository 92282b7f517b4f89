// SPDX-License-Identifier: Apache-2.0
#include "driver/vm/vm_codegen.h"

#include "driver/lower/compile_engine.h"
#include "driver/vm/function_compiler.h"
#include "driver/vm/mac_terms.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/mac_count.h"

namespace treadle::driver {

using relay::Function;
using relay::FunctionNode;
using relay::Var;

VmProgram VmProgramBuilder::Run() {
  for (const auto& [var, base] : module->functions) {
    const auto* func = base.as<FunctionNode>();
    // Kernels are compiled where they are called, polymorphic functions where they are used.
    if (func == nullptr || IsKernel(func) || !func->type_params.empty()) continue;
    if (var->name_hint == "main" || module->functions.size() <= 64) GlobalFunction(var);
  }
  int entry = globals_.count("main") != 0 ? globals_.at("main") : 0;
  for (size_t i = 0; i < pending_.size(); ++i) {
    Pending pending = pending_[i];
    VmFunctionCompiler compiler(this, pending.captured.size() + pending.func->params.size());
    runtime::vm::Function f =
        compiler.Compile(pending.func, pending.captured, pending.self, static_cast<int>(i), pending.name);
    result_.program.functions[i] = std::move(f);
  }
  if (pending_.empty()) throw Error("the module has no function to compile");
  result_.program.entry = static_cast<uint32_t>(entry);
  result_.program.num_constants = static_cast<uint32_t>(result_.constants.size());
  result_.program.Verify("internal error: compiled program");
  return std::move(result_);
}

int VmProgramBuilder::AddPending(Pending pending) {
  pending_.push_back(std::move(pending));
  result_.program.functions.emplace_back();
  return static_cast<int>(pending_.size()) - 1;
}

int VmProgramBuilder::GlobalFunction(const GlobalVar& var) {
  auto it = globals_.find(var->name_hint);
  if (it != globals_.end()) return it->second;
  BaseFunc base = module->Lookup(var);
  if (base.as<FunctionNode>() == nullptr) throw Error(StrCat("@", var->name_hint, " isn't a function of the graph IR"));
  Pending pending{Downcast<Function>(base), {}, Var(ObjectPtr<Object>()), var->name_hint};
  int index = AddPending(std::move(pending));
  globals_[var->name_hint] = index;
  return index;
}

int VmProgramBuilder::AddClosure(const Function& func, const Array<Var>& captured, const Var& self) {
  std::string hint = self.defined() ? self->name_hint() : "fn";
  return AddPending({func, captured, self, StrCat("closure", pending_.size(), "_", hint)});
}

int VmProgramBuilder::Constant(const runtime::NDArray& value) {
  auto [it, inserted] = constants_.emplace(value.get(), static_cast<int>(result_.constants.size()));
  if (inserted) result_.constants.push_back(value);
  return it->second;
}

int VmProgramBuilder::String(const std::string& text) {
  auto [it, inserted] = strings_.emplace(text, static_cast<int>(result_.program.strings.size()));
  if (inserted) result_.program.strings.push_back(text);
  return it->second;
}

VmProgramBuilder::KernelRef VmProgramBuilder::Kernel(const Function& func, uint32_t tensors, uint32_t outputs) {
  const DeclaredKernel kernel = declare_(func);
  auto [it, inserted] = kernels_.emplace(kernel.symbol, static_cast<int>(result_.program.kernels.size()));
  if (inserted) {
    runtime::vm::KernelDecl decl{kernel.symbol, tensors, outputs, 0, {}, false};
    if (!func->attrs->dict.contains(treadle::attr::kCompiler)) {
      if (auto macs = MacTermsOf(func)) {
        decl.macs = *std::move(macs);
        decl.macs_known = true;
        decl.mac_share = relay::MacShare(func);
      }
    }
    result_.program.kernels.push_back(std::move(decl));
  }
  return {it->second, kernel.device_type};
}

VmProgram GenerateVmProgram(const IRModule& module, const DeclareKernel& declare, bool has_devices) {
  return VmProgramBuilder(module, declare, has_devices).Run();
}

}  // namespace treadle::driver
