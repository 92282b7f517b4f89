// SPDX-License-Identifier: Apache-2.0
// From the optimised main function to what the graph executor needs: graph, parameters, kernels, external modules.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/graph/graph_codegen.h"
#include "driver/lower/build_targets.h"
#include "driver/lower/compile_engine.h"
#include "driver/memory/memory_plan.h"
#include "treadle/runtime/metadata_module.h"

namespace treadle::driver {

/// Option of the pass context: "arena" (default) or "relay".
inline constexpr const char* kPlannerOption = "relay.memory_planner";

/// The planner that the pass context asks for.
MemoryPlanner PlannerFromContext();

/// What code generation for a graph yields, before machine code is made.
struct GraphCode {
  relay::Function main;
  ExecutorGraph graph;
  MemoryPlan plan;
  std::string memory_report;                     ///< text
  std::shared_ptr<CompileEngine> engine;         ///< the kernels, declared
  std::map<std::string, int64_t> param_storage;  ///< storage id of each parameter
  std::vector<relay::Function> externals;        ///< functions for external code generators, in order of first use
  std::vector<runtime::Module> external_modules;
  runtime::ConstantsOfSymbols external_constants;  ///< names among the parameters, by external function
};

/// The engine's lowered functions by target text, lowering what isn't.
std::map<std::string, IRModule> LoweredModules(CompileEngine* engine, int threads);

/// Generates the graph of `main` (optimised and typed; every call is of a primitive or external function), declares
/// its kernels and runs the external code generators (driver/lower/externals.h).
/// Kernels that the memory plan depends on are lowered as `options` say.
GraphCode GenerateGraphCode(const relay::Function& main, const BuildTargets& targets, const std::string& module_name,
                            const EngineOptions& options = {});

/// The modules of `code` as one: native code, importing the modules of other targets; around it, where there are
/// external modules, the one that gives them their constants. `params` loses those that only external functions use.
runtime::Module LinkModules(const GraphCode& code, const BuildTargets& targets, runtime::ParamList* params);

/// Text on storages: size of each, totals, and the least that any plan needs.
std::string MemoryReportText(const relay::Function& main, const MemoryPlan& plan);

}  // namespace treadle::driver
