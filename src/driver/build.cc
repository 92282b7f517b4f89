// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "backends/backend.h"
#include "backends/c/toolchain.h"
#include "driver/compile_engine.h"
#include "driver/dump.h"
#include "driver/graph_codegen.h"
#include "driver/memory_plan.h"
#include "driver/optimize.h"
#include "treadle/driver/compile.h"
#include "treadle/ir/transform.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/passes.h"

namespace treadle::driver {
namespace {

using runtime::NDArray;
using ParamList = std::vector<std::pair<std::string, NDArray>>;

transform::PassContext MakeContext(const CompileOptions& options) {
  transform::PassContext context = transform::PassContext::Create();
  auto* node = context.CopyOnWrite();
  node->opt_level = options.opt_level;
  node->required_pass = options.required_pass;
  node->disabled_pass = options.disabled_pass;
  node->instruments = options.instruments;
  for (const auto& [key, text] : options.config) {
    char* end = nullptr;
    long long number = std::strtoll(text.c_str(), &end, 0);
    bool is_number = !text.empty() && *end == '\0';
    if (text == "true" || text == "false") {
      node->config.Set(key, IntImm(DataType::Bool(), text == "true"));
    } else if (is_number) {
      node->config.Set(key, IntImm(DataType::Int(64), number));
    } else {
      node->config.Set(key, String(text));
    }
  }
  return context;
}

runtime::TensorInfo Describe(const std::string& name, const Type& type) {
  const auto* tensor = type.as<TensorTypeNode>();
  if (tensor == nullptr) throw Error(StrCat("'", name, "' of main is a ", type->type_key(), ", not a tensor"));
  runtime::TensorInfo info;
  info.name = name;
  info.shape = StaticShape(tensor, "'" + name + "'");
  info.dtype = tensor->dtype;
  return info;
}

/// Instruction sets that code for the target uses, by LLVM's names; the loader checks them.
std::vector<std::string> RequiredCpuFeatures(const Target& target) {
  if (target->kind != "llvm") return {};
  TargetFeatures features = target->Features();
  if (features.arch != "x86_64") return {};
  std::vector<std::string> names;
  if (features.vector_bits >= 256) names = {"avx", "avx2", "bmi2"};
  if (features.vector_bits >= 512) names.insert(names.end(), {"avx512f", "avx512vl", "avx512bw", "avx512dq"});
  if (features.fma) names.push_back("fma");
  if (features.f16_convert) names.push_back("f16c");
  return names;
}

runtime::Manifest MakeManifest(const relay::Function& main, const Target& target) {
  runtime::Manifest manifest;
  manifest.treadle_version = runtime::VersionString();
  manifest.target = target.str();
  manifest.cpu_features = RequiredCpuFeatures(target);
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

int CompileThreads(const CompileOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Generates code for all kernels, in as many pieces as there are threads.
void GenerateCode(const std::vector<Kernel>& kernels, const Target& target, const CompileOptions& options,
                  CompiledModel* model) {
  const backends::Backend& backend = backends::GetBackend(target->kind);
  int threads = CompileThreads(options);
  // Twice as many pieces as threads, so that one slow piece doesn't leave the others waiting.
  size_t pieces = std::min(kernels.size(), static_cast<size_t>(threads) * 2);
  std::vector<std::vector<tir::PrimFunc>> functions(pieces);
  for (size_t i = 0; i < kernels.size(); ++i) functions[i % pieces].push_back(kernels[i].lowered);
  std::vector<backends::Artifact> artifacts(pieces);
  std::vector<std::string> sources(pieces);  // C only
  ParallelFor(pieces, threads, [&](size_t i) {
    backends::CodegenOptions codegen;
    codegen.module_name = "treadle" + std::to_string(i);
    codegen.opt_level = 3;
    codegen.emit_ll = options.dump.Wants("ll");
    codegen.emit_asm = options.dump.Wants("asm");
    artifacts[i] = backend.codegen(functions[i], target, codegen);
    if (artifacts[i].format != "c") return;
    sources[i] = std::move(artifacts[i].code);
    artifacts[i].code = backends::CompileC(sources[i], target);
  });
  for (const std::string& source : sources) model->sources["c"] += source;
  for (backends::Artifact& artifact : artifacts) {
    model->objects.push_back(std::move(artifact.code));
    model->sources["ll"] += artifact.ll;
    model->sources["asm"] += artifact.assembly;
  }
}

}  // namespace

CompiledModel Build(IRModule module, const ParamList& params, const CompileOptions& options) {
  RegisterAll();
  Target target(options.target);
  std::optional<transform::PassContext::Scope> scope;
  if (!options.inherit_context) scope.emplace(MakeContext(options));
  Dumper dump(options.dump);

  CompiledModel model;
  model.target = target.str();
  module = BindParams(std::move(module), params);
  dump.Write("relay", [&] { return RelayText(module); });
  FusionObserver report;
  if (options.dump.Wants("fusion")) {
    report = [&](const IRModule& before, const transform::PassContext& context) {
      dump.Write("fusion", [&] { return relay::transform::FusionReport(before, context); });
    };
  }
  module = Optimize(std::move(module), target, report);
  model.optimized = module;
  dump.Write("relay-opt", [&] { return RelayText(module); });

  auto main = Downcast<relay::Function>(module->Lookup("main"));
  MemoryPlan plan = GraphPlanMemory(main, MemoryPlanner::kArena);
  CompileEngine engine(target);
  ExecutorGraph graph =
      GenerateGraph(main, plan, MemoryPlanner::kArena, [&](const relay::Function& f) { return engine.Declare(f); });
  model.graph_json = std::move(graph.json);
  model.params = std::move(graph.params);
  model.manifest = MakeManifest(main, target);
  dump.Write("graph", [&] { return model.graph_json; });

  engine.LowerAll(CompileThreads(options));
  model.lowered = IRModule::Empty();
  for (const Kernel& kernel : engine.kernels()) {
    model.lowered.CopyOnWrite()->Add(GlobalVar(kernel.symbol), kernel.lowered);
  }
  dump.Write("tir", [&] { return KernelsText(engine.kernels()); });
  GenerateCode(engine.kernels(), target, options, &model);
  dump.Write("ll", [&] { return model.sources["ll"]; });
  dump.Write("c", [&] { return model.sources["c"]; });
  dump.Write("asm", [&] { return model.sources["asm"]; });
  return model;
}

}  // namespace treadle::driver
