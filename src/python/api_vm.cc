// SPDX-License-Identifier: Apache-2.0
// Programs of the virtual machine: compile, export, load, run.
#include "python/api_vm.h"

#include "driver/vm/vm_values.h"
#include "python/build_options.h"
#include "python/checked.h"
#include "runtime/unfinished.h"
#include "treadle/driver/compile.h"
#include "treadle/relay/type_infer.h"
#include "treadle/runtime/vm/machine.h"

namespace treadle::python {
namespace {

using driver::CompiledModel;
using driver::Value;
using runtime::vm::VirtualMachine;
using runtime::vm::VmModel;

/// A compiled program; loaded when it is first run.
class VmExecutableNode : public Object {
 public:
  std::shared_ptr<const CompiledModel> compiled;  ///< null when loaded from a file
  IRModule module = IRModule::Empty();            ///< typed; empty when loaded from a file
  mutable std::shared_ptr<const VmModel> model;
  TREADLE_NODE(VmExecutableNode, Object, "relay.vm.Executable")

  const std::shared_ptr<const VmModel>& Loaded() const {
    if (model == nullptr) {
      runtime::TemporaryDirectory directory;
      const std::string path = directory.Path("program.so");
      driver::ExportLibrary(*compiled, path);
      model = runtime::vm::LoadVmModel(path);  // stays mapped
    }
    return model;
  }
};
class VmExecutable : public ObjectRef {
 public:
  TREADLE_BASE_REF(VmExecutable, ObjectRef, VmExecutableNode);
};

class VmMachineNode : public Object {
 public:
  VmExecutable executable = VmExecutable(ObjectPtr<Object>());
  std::unique_ptr<VirtualMachine> machine;
  TREADLE_NODE(VmMachineNode, Object, "relay.vm.Machine")
};
class VmMachine : public ObjectRef {
 public:
  TREADLE_BASE_REF(VmMachine, ObjectRef, VmMachineNode);
};

VmExecutable Compile(IRModule module, Map<String, runtime::NDArray> params, Map<String, ObjectRef> flags) {
  driver::CompileOptions options = BuildOptions(flags);
  options.opt_level = treadle::transform::PassContext::Current()->opt_level;
  options.executor = "vm";
  std::vector<std::pair<std::string, runtime::NDArray>> values;
  for (const auto& [name, value] : params) values.emplace_back(name.str(), value);
  auto node = MakeObject<VmExecutableNode>();
  driver::RegisterAll();
  node->module = relay::InferTypes(module);
  node->compiled = std::make_shared<CompiledModel>(driver::Build(node->module, values, options));
  return VmExecutable(ObjectPtr<Object>(node));
}

Value InvokeClosure(VmMachine machine, runtime::VmClosure closure, Array<Value> args) {
  std::vector<ObjectRef> values = closure->captured;
  for (const Value& arg : args) values.push_back(driver::ToVmValue(arg));
  ObjectRef result = machine->machine->Invoke(closure->function, std::move(values));
  return driver::FromVmValue(result, Type(), machine->executable->module);
}

Value Invoke(VmMachine machine, std::string name, Array<Value> args) {
  int index = machine->machine->model().program().FindFunction(name);
  if (index < 0) throw Error(StrCat("the program has no function \"", name, "\""));
  const IRModule& module = machine->executable->module;
  Type type;
  if (module->ContainGlobalVar(name)) type = Expect<relay::Function>(module->Lookup(name))->ret_type;
  std::vector<ObjectRef> values;
  for (const Value& arg : args) values.push_back(driver::ToVmValue(arg));
  return driver::FromVmValue(machine->machine->Invoke(static_cast<uint32_t>(index), std::move(values)), type, module);
}

}  // namespace

void RegisterVmApi() {
  using runtime::Registry;
  RegisterChecked("relay.vm.Compile", &Compile);
  RegisterChecked("relay.vm.Load", [](std::string path) {
    auto node = MakeObject<VmExecutableNode>();
    node->model = runtime::vm::LoadVmModel(path);
    return VmExecutable(ObjectPtr<Object>(node));
  });
  RegisterChecked("relay.vm.Export", [](VmExecutable self, std::string path) {
    if (self->compiled == nullptr) throw Error("a program that was loaded from a file can't be exported again");
    driver::ExportLibrary(*self->compiled, path);
  });
  RegisterChecked("relay.vm.Bytecode", [](VmExecutable self) { return self->Loaded()->program().Disassemble(); });
  RegisterChecked("relay.vm.Functions", [](VmExecutable self) {
    Array<String> names;
    for (const auto& function : self->Loaded()->program().functions) names.push_back(function.name);
    return names;
  });
  RegisterChecked("relay.vm.FunctionParams", [](VmExecutable self, std::string name) {
    const auto& program = self->Loaded()->program();
    int index = program.FindFunction(name);
    if (index < 0) throw Error(StrCat("the program has no function \"", name, "\""));
    Array<String> names;
    for (const std::string& param : program.functions[static_cast<size_t>(index)].params) names.push_back(param);
    return names;
  });
  RegisterChecked("relay.vm.Machine", [](VmExecutable self) {
    auto node = MakeObject<VmMachineNode>();
    node->executable = self;
    node->machine = std::make_unique<VirtualMachine>(self->Loaded());
    return VmMachine(ObjectPtr<Object>(node));
  });
  RegisterChecked("relay.vm.Invoke", &Invoke);
  RegisterChecked("relay.vm.InvokeClosure", &InvokeClosure);
  RegisterChecked("relay.vm.Profile", [](VmMachine self, std::string name, Array<Value> args) {
    self->machine->StartProfile(/*stop_at_nan=*/false);
    try {
      Invoke(self, name, args);
    } catch (...) {
      self->machine->TakeProfile();
      throw;
    }
    Array<Array<ObjectRef>> rows;
    for (const runtime::OpTiming& timing : self->machine->TakeProfile()) {
      rows.push_back({String(timing.func_name), FloatImm(DataType::Float(64), timing.seconds), String(timing.shapes)});
    }
    return rows;
  });
  RegisterChecked("relay.vm.SetLimits", [](VmMachine self, int64_t call_depth, int64_t instructions) {
    runtime::vm::VmLimits limits;
    if (call_depth > 0) limits.call_depth = call_depth;
    limits.instructions = instructions;
    self->machine->SetLimits(limits);
  });
  RegisterChecked("relay.vm.PoolBytes", [](VmMachine self) { return self->machine->PoolBytes(); });
}

}  // namespace treadle::python
