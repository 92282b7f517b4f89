// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

#include "driver/build/calibrate.h"
#include "driver/build/context.h"
#include "driver/build/decisions.h"
#include "driver/build/dump.h"
#include "driver/build/external_choice.h"
#include "driver/build/flatten_outputs.h"
#include "driver/build/optimize.h"
#include "driver/graph/graph_executor_codegen.h"
#include "driver/graph/why_not_graph.h"
#include "driver/lower/build_targets.h"
#include "driver/lower/compile_engine.h"
#include "driver/lower/device_code.h"
#include "driver/lower/externals.h"
#include "driver/vm/vm_codegen.h"
#include "treadle/base/suggest.h"
#include "treadle/driver/compile.h"
#include "treadle/ir/transform.h"
#include "treadle/passes/passes.h"
#include "treadle/relay/device.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/device_calls.h"
#include "treadle/schedule/kernel.h"
#include "treadle/targets/target_spec.h"

namespace treadle::driver {
namespace {

/// Refuses names of passes that don't exist: a mistyped one would be left out, or run, without a word.
void CheckPassNames(const CompileOptions& options, const BuildTargets& targets) {
  if (options.required_pass.empty() && options.disabled_pass.empty()) return;
  std::vector<std::string> known = transform::ListPassNames();
  for (const transform::Pass& pass : OptimizationPasses(targets, transform::Pass())) known.push_back(pass->info.name);
  for (const auto* names : {&options.required_pass, &options.disabled_pass}) {
    for (const std::string& name : *names) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      throw Error(StrCat(names == &options.required_pass ? "required" : "disabled", " pass '", name, "' doesn't exist",
                         DidYouMean(name, known)));
    }
  }
}

runtime::TensorInfo Describe(const std::string& name, const Type& type) {
  const auto* tensor = type.as<TensorTypeNode>();
  if (tensor == nullptr) throw Error(StrCat("'", name, "' of main is a ", type->type_key(), ", not a tensor"));
  runtime::TensorInfo info;
  info.name = name;
  bool dynamic = !IsStatic(tensor);
  for (const PrimExpr& dim : tensor->shape) {
    const int64_t* value = AsConstInt(dim);
    info.shape.push_back(value != nullptr ? *value : -1);
    const auto* symbol = dim.as<tir::VarNode>();
    bool named = value == nullptr && symbol != nullptr && !IsAnyDim(dim);
    if (dynamic) info.dim_names.push_back(named ? symbol->name_hint : "");
  }
  info.dtype = tensor->dtype;
  return info;
}

/// Instruction sets that code for the target uses; the loader checks them.
std::vector<std::string> RequiredCpuFeatures(const Target& model_target) {
  const Target target = HostOf(model_target);
  const targets::TargetSpec& spec = targets::GetTargetSpec(target);
  return spec.required_cpu_features ? spec.required_cpu_features(target) : std::vector<std::string>();
}

bool OnlyTensors(const relay::Function& main) {
  for (const relay::Var& param : main->params) {
    if (!param->checked_type().as<TensorTypeNode>()) return false;
  }
  const Type type = main->body->checked_type();
  const auto* tuple = type.as<TupleTypeNode>();
  if (tuple == nullptr) return type.as<TensorTypeNode>() != nullptr;
  for (const Type& field : tuple->fields) {
    if (!field.as<TensorTypeNode>()) return false;
  }
  return true;
}

/// With `any_type`, a program whose values aren't all tensors has no inputs and outputs in its manifest.
runtime::Manifest MakeManifest(const relay::Function& main, const Target& target, bool any_type) {
  runtime::Manifest manifest;
  manifest.treadle_version = runtime::VersionString();
  manifest.target = target.str();
  manifest.cpu_features = RequiredCpuFeatures(target);
  if (any_type && !OnlyTensors(main)) return manifest;
  for (const relay::Var& param : main->params) {
    manifest.inputs.push_back(Describe(param->name_hint(), param->checked_type()));
  }
  std::vector<std::string> names;
  if (auto given = main->GetAttr<Array<String>>(kOutputNames)) {
    for (const String& name : *given) names.push_back(name);
  }
  std::vector<Type> types;
  if (const auto* tuple = main->body->type_as<TupleTypeNode>()) {
    for (const Type& field : tuple->fields) types.push_back(field);
  } else {
    types.push_back(main->body->checked_type());
  }
  for (size_t i = 0; i < types.size(); ++i) {
    manifest.outputs.push_back(Describe(i < names.size() ? names[i] : "output" + std::to_string(i), types[i]));
  }
  return manifest;
}

/// The pass that gives parts of the graph to the external code generators that were asked for; null: none were.
transform::Pass PartitionPass(const CompileOptions& options, CompiledModel* model) {
  if (options.external.empty()) return transform::Pass();
  const bool choose = options.external == std::vector<std::string>{kAutoExternal};
  return transform::CreateModulePass(
      [options, choose, model](IRModule module, const transform::PassContext&) {
        external::PartitionReport report;
        std::string measured;
        module = external::Partition(std::move(module), choose ? AutoCodegens() : options.external,
                                     choose ? MeasuringJudge(options, &measured) : nullptr, &report);
        model->partition = report.text + measured;
        return module;
      },
      {"PartitionExternal", 0, {"InferType"}, "Gives parts of the graph to external code generators"});
}

int CompileThreads(const CompileOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::string TextsOf(const CompileEngine& engine, const std::string& format) {
  std::string all;
  for (const auto& kernel : engine.kernels()) {
    if (auto it = kernel->texts.find(format); it != kernel->texts.end()) all += it->second;
  }
  return all;
}

/// The formats of kernels' texts that are dumped.
std::vector<std::string> DumpedTexts(const DumpOptions& dump) {
  std::vector<std::string> formats;
  for (const std::string& format : CodeStages()) {
    if (dump.Wants(format)) formats.push_back(format);
  }
  return formats;
}

bool UsesVm(const std::string& executor, const IRModule& module) {
  if (executor == "vm") return true;
  const std::string why = WhyNotGraph(module);
  if (executor == "graph" && !why.empty()) {
    throw Error(
        StrCat("the graph executor, which was asked for, can't run this program: ", why, "; the virtual machine can"));
  }
  if (executor != "auto" && executor != "graph") {
    throw Error(StrCat("there is no executor '", executor, "'; there are: auto, graph, vm"));
  }
  return !why.empty();
}

/// `given` with what the target's own options say where the build's don't: the executor, and libraries that may take
/// parts of the model.
CompileOptions WithTargetOptions(const CompileOptions& given, const Target& target) {
  CompileOptions options = given;
  if (options.executor == "auto") options.executor = target->GetAttr("executor", "auto");
  if (!options.external.empty()) return options;
  std::istringstream names(target->GetAttr("libs", ""));
  for (std::string name; std::getline(names, name, ',');) {
    options.external.push_back(name == "mkldnn" ? "dnnl" : name);  // its former name
  }
  return options;
}

constexpr char kKernelDevice[] = "device_type";

/// Says of each kernel that a function calls which device it runs on.
class DeviceMarker : public relay::ExprMutator {
 public:
  DeviceMarker(const relay::Function& func, int otherwise)
      : devices_(relay::CollectDeviceInfo(func)), otherwise_(otherwise) {
    // A function without copies is on one device, which planning wrote down where it isn't the default.
    if (auto planned = func->GetAttr<IntImm>("result_device_type")) otherwise_ = static_cast<int>((*planned)->value);
  }
  using ExprMutator::VisitExpr_;
  relay::Expr VisitExpr_(const relay::CallNode* call) override {
    auto found = devices_.find(GetRef<relay::Expr>(call));
    relay::Expr result = ExprMutator::VisitExpr_(call);
    const auto* post = result.as<relay::CallNode>();
    const auto* func = post->op.as<relay::FunctionNode>();
    if (func == nullptr || !func->is_primitive()) return result;
    const int device = found == devices_.end() ? otherwise_ : found->second;
    relay::Function marked = WithAttr(GetRef<relay::Function>(func), kKernelDevice, IntImm(DataType::Int(32), device));
    return relay::Call(marked, post->args, post->attrs, post->type_args, post->span);
  }
  relay::Expr VisitExpr_(const relay::FunctionNode* func) override {
    return IsKernel(func) ? GetRef<relay::Expr>(func) : ExprMutator::VisitExpr_(func);
  }

 private:
  relay::DeviceMap devices_;
  int otherwise_;
};

/// How many tensors a kernel reads.
uint32_t NumTensors(const relay::Function& func) {
  std::function<uint32_t(const Type&)> count = [&](const Type& type) -> uint32_t {
    const auto* tuple = type.as<TupleTypeNode>();
    if (tuple == nullptr) return 1;
    uint32_t sum = 0;
    for (const Type& field : tuple->fields) sum += count(field);
    return sum;
  };
  uint32_t sum = 0;
  for (const relay::Var& param : func->params) sum += count(param->checked_type());
  return sum;
}

/// The program in `model`; what is given back holds its kernels. `device_calls`: those on other devices than the CPU.
GraphCode GenerateProgram(IRModule module, const BuildTargets& targets, const CompileOptions& options,
                          CompiledModel* model, std::map<std::string, runtime::DeviceCall>* device_calls) {
  // A value that several branches or functions use is bound where all of them see it, so that each is compiled once.
  IRModule bound = relay::transform::InferType()(relay::transform::ToBasicBlockNormalForm()(module));
  GraphCode code;
  code.main = Downcast<relay::Function>(bound->Lookup("main"));
  code.engine = std::make_shared<CompileEngine>(options.module_name);
  code.graph.plain = false;
  if (targets.heterogeneous()) {
    const IRModule planned = bound;
    for (const auto& [var, base] : planned->functions) {
      const auto* func = base.as<relay::FunctionNode>();
      if (func == nullptr || IsKernel(func)) continue;
      DeviceMarker marker(GetRef<relay::Function>(func), targets.default_device());
      bound.CopyOnWrite()->Add(var, Downcast<relay::Function>(marker.Mutate(GetRef<relay::Function>(func))));
    }
    bound = relay::transform::InferType()(bound);
  }
  Externals externals;
  const auto declare = [&](const relay::Function& f) {
    if (f->attrs->dict.contains(attr::kCompiler)) return DeclaredKernel{externals.Declare(f)};
    const auto given = f->GetAttr<IntImm>(kKernelDevice);
    const int device = given ? static_cast<int>((*given)->value) : targets.default_device();
    const std::string& symbol = code.engine->Declare(f, targets.ForDevice(device)).symbol;
    if (device != kDLCPU) (*device_calls)[symbol] = {device, NumTensors(f)};
    return DeclaredKernel{symbol, device};
  };
  const bool has_devices = targets.heterogeneous() || targets.default_device() != kDLCPU;
  VmProgram program = GenerateVmProgram(bound, declare, has_devices);
  model->manifest.executor = "vm";
  model->vm_program = program.program.Save();
  model->vm_text = program.program.Disassemble();
  for (const NDArray& constant : program.constants) {
    model->params.emplace_back("c" + std::to_string(model->params.size()), constant);
  }
  code.externals = externals.list();
  ExternalCode external = CompileExternals(code.externals, &model->params);
  code.external_modules = std::move(external.modules);
  code.external_constants = std::move(external.constants);
  return code;
}

/// The stages from the choice of kernels to their code. `decisions`: what goes before the choice in "explain".
void DumpKernels(Dumper& dump, const std::string& choices, const std::function<std::string()>& decisions,
                 const CompiledModel& model, int threads) {
  CompileEngine& engine = *model.code->engine;
  dump.Write("kernels", [&] {
    engine.LowerAll(threads);
    return ChoicesText(choices, engine);
  });
  dump.Write("explain", [&] {
    engine.LowerAll(threads);
    return decisions() + ChoicesText(choices, engine);
  });
  dump.Write("tir", [&] {
    engine.LowerAll(threads);
    return KernelsText(engine);
  });
  for (const std::string& format : CodeStages()) {
    dump.Write(format, [&] {
      std::string text = TextsOf(engine, format);
      for (const runtime::Module& module : model.external_modules) {
        if (module.module_type() == format) text += module->GetSource("") + "\n";
      }
      return text;
    });
  }
}

}  // namespace

CompiledModel Build(IRModule module, const ParamList& params, const CompileOptions& given) {
  RegisterAll();
  std::optional<transform::PassContext::Scope> scope;
  if (!given.inherit_context) scope.emplace(MakeContext(given));
  BuildTargets targets = ResolveTargets(given);
  const CompileOptions options = WithTargetOptions(given, targets.default_target());
  if (!options.inherit_context) CheckPassNames(options, targets);
  const transform::PassContext current = transform::PassContext::Current();
  const Target& target = targets.default_target();
  std::optional<transform::PassContext::Scope> with_measured;
  const auto context = ForShortUse(WithCalibration(WithRecords(current, target), target), target);
  if (!context.same_as(current)) with_measured.emplace(context);
  Dumper dump(options.dump);

  CompiledModel model;
  model.target = targets.default_target().str();
  module = BindParams(std::move(module), params);
  if (options.executor != "vm") module = FlattenOutputs(module);
  dump.Write("relay", [&] { return RelayText(module); });
  FusionObserver report;
  std::string fusion;
  if (options.dump.Wants("fusion") || options.dump.Wants("explain")) {
    report = [&](const IRModule& before, const transform::PassContext& context) {
      fusion = relay::transform::FusionReport(before, context);
      dump.Write("fusion", [&] { return fusion; });
    };
  }
  schedule::ChoiceLog choices;
  module = Optimize(std::move(module), &targets, report, PartitionPass(options, &model));
  model.optimized = module;
  dump.Write("relay-opt", [&] { return RelayText(module); });
  dump.Write("partition", [&] { return model.partition; });

  auto main = Downcast<relay::Function>(module->Lookup("main"));
  const bool vm = UsesVm(options.executor, module);
  model.manifest = MakeManifest(main, targets.default_target(), /*any_type=*/options.executor == "vm");
  model.manifest.module_name = options.module_name;
  if (const auto text = transform::PassContext::Current()->GetConfigString(targets::kCalibrationOption, "");
      !text.empty()) {
    model.manifest.provenance["calibration"] = text;
  }
  const int threads = CompileThreads(options);
  const bool no_cache =
      transform::PassContext::Current()->GetConfigBool("relay.backend.disable_compile_engine_cache", false);
  EngineOptions engine{threads, DumpedTexts(options.dump), options.use_cache && !no_cache, options.progress};
  std::map<std::string, runtime::DeviceCall> device_calls;
  GraphCode code = vm ? GenerateProgram(module, targets, options, &model, &device_calls)
                      : GenerateGraphCode(main, targets, options.module_name, engine);
  if (vm) {
    dump.Write("vm", [&] { return model.vm_text; });
  } else {
    model.graph_json = code.graph.json;
    model.params = code.graph.params;
    model.memory_report = code.memory_report;
    dump.Write("graph", [&] { return model.graph_json; });
  }
  model.external_modules = code.external_modules;

  code.engine->CompileAll(engine);
  model.num_kernels = code.engine->kernels().size();
  for (const auto& kernel : code.engine->kernels()) model.cached_kernels += kernel->from_cache ? 1 : 0;
  model.library = LinkModules(code, targets, &model.params);
  if (!device_calls.empty()) model.library = runtime::MakeDeviceCallsModule(device_calls, model.library);
  model.code = std::make_shared<GraphCode>(code);
  model.lowered = [engine = code.engine, context = transform::PassContext::Current()] {
    transform::PassContext::Scope inner(context);
    return LoweredModules(engine.get(), 1);
  };
  const auto decisions = [&] { return DecisionsText(model, fusion, targets.default_device()); };
  DumpKernels(dump, choices.text(), decisions, model, threads);
  return model;
}

}  // namespace treadle::driver
