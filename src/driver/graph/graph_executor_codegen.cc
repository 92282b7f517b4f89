// SPDX-License-Identifier: Apache-2.0
#include "driver/graph/graph_executor_codegen.h"

#include <algorithm>
#include <iomanip>
#include <optional>
#include <set>

#include "driver/lower/device_code.h"
#include "driver/lower/externals.h"
#include "driver/memory/memory_arena.h"
#include "driver/package/native_module.h"
#include "driver/package/target_module.h"
#include "treadle/ir/transform.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/registry.h"
#include "treadle/targets/target_spec.h"

namespace treadle::driver {
namespace {

using relay::Function;
using runtime::Module;

/// The function that runs the whole graph, or nothing.
std::optional<std::string> MainObject(const ExecutorGraph& graph, const Target& target) {
  const auto& make = targets::GetTargetSpec(target).main_function;
  if (!make) return std::nullopt;
  std::vector<targets::MainCall> calls;
  for (const auto& [symbol, first_arg] : graph.calls) calls.push_back({symbol, first_arg});
  return make(calls, target);
}

/// The object of functions that launch kernels.
std::string CompileHost(const std::vector<tir::PrimFunc>& functions, const Target& host) {
  const targets::TargetSpec& spec = targets::GetTargetSpec(host);
  if (!spec.launches_kernels) {
    throw TargetError(StrCat("code that launches kernels is made by target ", targets::DefaultTarget(kDLCPU)->kind,
                             ", not by the host ", host->kind));
  }
  targets::CodegenOptions options;
  options.module_name = "treadle_host";
  options.raw_api = false;
  return spec.codegen(functions, host, options).code;
}

/// Lowers the kernels whose memory the plan may join, and says what each may write over.
InPlaceRule LowerForPlan(CompileEngine* engine, const Function& main, const BuildTargets& targets,
                         const EngineOptions& options) {
  const MemoryProgram program = LinearizeForMemory(main);
  std::vector<Kernel*> kernels;
  std::map<const Object*, const Kernel*> kernel_of;  ///< by function
  for (const relay::CallNode* call : InPlaceCandidates(program)) {
    const int device = program.tensors[program.tensors_of.at(GetRef<relay::Expr>(call))[0]].device_type;
    kernels.push_back(&engine->Find(Downcast<Function>(call->op), targets.ForDevice(device)));
    kernel_of[call->op.get()] = kernels.back();
  }
  engine->FindInPlace(kernels, options);
  return [kernel_of](const relay::CallNode* call, size_t operand) {
    auto it = kernel_of.find(call->op.get());
    if (it == kernel_of.end()) return false;
    const std::vector<int>& in_place = it->second->in_place;
    return std::find(in_place.begin(), in_place.end(), static_cast<int>(operand)) != in_place.end();
  };
}

/// The branches that run side by side on the target's cores; tensors keep their memory while they do.
BranchNames PlanBranches(const Target& target, MemoryProgram* program) {
  if (!transform::PassContext::Current()->GetConfigBool(kParallelBranches, true)) return {};
  const TargetFeatures features = target->Features();
  std::vector<StepCost> costs;
  for (const PlannedStep& step : program->steps) costs.push_back(EstimateStep(step, features));
  const std::vector<BranchStage> stages = FindBranchStages(*program, costs, features.num_cores);
  KeepThroughStages(stages, program);
  return NamesOfBranches(stages, *program);
}

/// Results that can be written where an argument lies share no memory with others: a context may make both one state
/// (GraphModel::UpdatesInput).
void KeepStates(MemoryProgram* program) {
  const int end = static_cast<int>(program->steps.size());
  for (PlannedStep& step : program->steps) {
    if (step.call == nullptr || step.call->op.as<relay::FunctionNode>() == nullptr) continue;
    if (!UpdatesOperand(Downcast<Function>(step.call->op)) || step.inputs.empty() || step.outputs.size() != 1) continue;
    const PlannedTensor& operand = program->tensors[static_cast<size_t>(step.inputs[0])];
    const PlannedTensor& result = program->tensors[static_cast<size_t>(step.outputs[0])];
    if (operand.persistent && operand.uses == 1 && result.last_use == end) step.memory_from = 0;
  }
}

/// Large results share no memory with others: a context lets the run write them where the caller gets them, rather than
/// copying them in the end (GraphContext::BindOutput).
void KeepResults(MemoryProgram* program) {
  constexpr int64_t kLeastBytes = 1 << 15;  // a copy of fewer takes less than a microsecond
  const int end = static_cast<int>(program->steps.size());
  for (PlannedStep& step : program->steps) {
    if (step.call == nullptr) continue;
    for (int id : step.outputs) {
      const PlannedTensor& result = program->tensors[static_cast<size_t>(id)];
      if (result.last_use == end && result.alias_of < 0 && result.bytes >= kLeastBytes) step.memory_from = 0;
    }
  }
}

/// Whether the host or a target has the option -link-params.
bool LinksParams(const BuildTargets& targets) {
  bool wanted = targets.host->GetIntAttr("link-params", 0) != 0;
  for (const auto& [device, target] : targets.by_device) wanted |= target->GetIntAttr("link-params", 0) != 0;
  return wanted;
}

std::string Bytes(int64_t bytes) { return StrCat(std::to_string(bytes), " bytes"); }

}  // namespace

MemoryPlanner PlannerFromContext() {
  const std::string name = transform::PassContext::Current()->GetConfigString(kPlannerOption, "arena");
  if (name == "arena") return MemoryPlanner::kArena;
  if (name == "relay") return MemoryPlanner::kRelay;
  throw Error(StrCat(kPlannerOption, " is \"", name, "\"; expected arena or relay"));
}

std::map<std::string, IRModule> LoweredModules(CompileEngine* engine, int threads) {
  engine->LowerAll(threads);
  std::map<std::string, IRModule> modules;
  for (const auto& kernel : engine->kernels()) {
    IRModule& module = modules.emplace(kernel->target.str(), IRModule::Empty()).first->second;
    module.CopyOnWrite()->Add(GlobalVar(kernel->symbol), kernel->lowered);
  }
  return modules;
}

GraphCode GenerateGraphCode(const Function& main, const BuildTargets& targets, const std::string& module_name,
                            const EngineOptions& options) {
  GraphCode code;
  code.main = main;
  code.engine = std::make_shared<CompileEngine>(module_name);
  MemoryPlanner planner = PlannerFromContext();
  // Views into one block are for memory that has addresses.
  for (const auto& [device, target] : targets.by_device) {
    if (IsDevice(target)) planner = MemoryPlanner::kRelay;
  }
  InPlaceRule rule;
  if (planner == MemoryPlanner::kArena) rule = LowerForPlan(code.engine.get(), main, targets, options);
  MemoryProgram program = LinearizeForMemory(main);
  BranchNames branches;
  if (planner == MemoryPlanner::kArena) branches = PlanBranches(targets.default_target(), &program);
  KeepStates(&program);
  if (planner == MemoryPlanner::kArena) KeepResults(&program);
  code.plan = PlanMemory(program, planner, targets.default_device(), rule);
  Externals externals;
  auto kernel_symbol = [&](const Function& func, int device_type) {
    if (func->attrs->dict.contains(attr::kCompiler)) return externals.Declare(func);
    return code.engine->Declare(func, targets.ForDevice(device_type)).symbol;
  };
  code.graph = GenerateGraph(main, code.plan, planner, targets.default_device(), kernel_symbol, branches);
  code.param_storage = code.graph.param_storage;
  code.externals = externals.list();
  ExternalCode external = CompileExternals(code.externals, &code.graph.params);
  code.external_modules = std::move(external.modules);
  code.external_constants = std::move(external.constants);
  code.memory_report = MemoryReportText(main, code.plan);
  return code;
}

Module LinkModules(const GraphCode& code, const BuildTargets& targets, runtime::ParamList* params) {
  std::vector<std::string> objects;
  std::map<std::string, std::vector<tir::PrimFunc>> device_functions;
  std::map<std::string, Target> device_targets;
  Target native = targets.host;
  for (const auto& kernel : code.engine->kernels()) {
    if (MakesObjects(kernel->target)) {
      if (objects.empty()) native = kernel->target;
      objects.push_back(kernel->object);
    } else {
      device_functions[kernel->target.str()].push_back(kernel->lowered);
      device_targets.emplace(kernel->target.str(), kernel->target);
    }
  }
  if (device_functions.empty() && code.graph.plain && !code.graph.has_branches && !objects.empty()) {
    if (auto main = MainObject(code.graph, native)) objects.push_back(*main);
  }
  std::vector<Module> devices;
  for (const auto& [text, functions] : device_functions) {
    const Target& target = device_targets.at(text);
    if (!IsDevice(target)) {
      devices.push_back(MakeTargetModule(functions, target));
      continue;
    }
    // Native code that launches, and the module with the kernels that it launches.
    DeviceCode device = GenerateDeviceCode(functions, target);
    if (objects.empty()) native = HostOf(target);
    objects.push_back(CompileHost(device.host, native));
    devices.push_back(device.module);
  }
  Module root;
  if (!objects.empty() || (devices.empty() && MakesObjects(native))) {
    // Lowered later, they are what the code is of: by the options of this build.
    auto lowered = [engine = code.engine, context = transform::PassContext::Current()] {
      transform::PassContext::Scope scope(context);
      std::vector<tir::PrimFunc> functions;
      engine->LowerAll(1);
      for (const auto& kernel : engine->kernels()) {
        if (MakesObjects(kernel->target)) functions.push_back(kernel->lowered);
      }
      return functions;
    };
    auto kernels = MakeObject<NativeModuleNode>(std::move(objects), native, lowered);
    if (LinksParams(targets)) kernels->LinkParams(*params);
    root = Module(ObjectPtr<Object>(kernels));
  } else if (devices.empty()) {
    root = Module(ObjectPtr<Object>(MakeObject<EmptyModuleNode>()));
  } else {
    root = devices.back();
    devices.pop_back();
  }
  for (const Module& device : devices) root.Import(device);
  if (code.external_modules.empty()) return root;

  std::set<std::string> owned;
  for (const auto& [symbol, names] : code.external_constants) owned.insert(names.begin(), names.end());
  runtime::ParamList constants;
  for (const auto& param : *params) {
    if (owned.count(param.first) != 0) constants.push_back(param);
  }
  std::erase_if(*params, [&](const auto& param) { return owned.count(param.first) != 0; });
  return runtime::MakeMetadataModule(std::move(constants), code.external_constants, root, code.external_modules);
}

std::string MemoryReportText(const Function& main, const MemoryPlan& plan) {
  struct Storage {
    int64_t bytes = 0;
    int device_type = 0;
    int tensors = 0;
    bool persistent = false;
  };
  std::map<int64_t, Storage> storages;
  for (const auto& [expr, info] : plan) {
    const bool persistent = expr.as<relay::VarNode>() != nullptr || expr.as<relay::ConstantNode>() != nullptr;
    const bool tensor = persistent || expr.as<relay::CallNode>() != nullptr;
    for (size_t i = 0; tensor && i < info.storage_ids.size(); ++i) {
      Storage& storage = storages[info.storage_ids[i]];
      storage.bytes = std::max(storage.bytes, info.offsets[i] + info.sizes[i]);
      storage.device_type = info.device_types[i];
      storage.persistent |= persistent;
      ++storage.tensors;
    }
  }
  int64_t fixed = 0, activations = 0;
  std::string rows;
  for (const auto& [id, storage] : storages) {
    (storage.persistent ? fixed : activations) += storage.bytes;
    rows += StrCat("  storage ", id, ": ", Bytes(storage.bytes), ", ", storage.tensors,
                   storage.tensors == 1 ? " tensor" : " tensors",
                   storage.device_type == 0 ? std::string() : ", on " + runtime::DeviceTypeName(storage.device_type),
                   storage.persistent ? ", parameter or input" : "", "\n");
  }
  const int64_t bound = PeakLiveBytes(LinearizeForMemory(main));
  return StrCat("parameters and inputs: ", Bytes(fixed), "\nactivations (peak): ", Bytes(activations),
                "\nalive at one step without writing in place: ", Bytes(bound), "\n", rows);
}

}  // namespace treadle::driver
