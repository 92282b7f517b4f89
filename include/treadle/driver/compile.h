// SPDX-License-Identifier: Apache-2.0
// Compiling a model: ONNX or graph IR in, one shared library out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "treadle/driver/progress.h"
#include "treadle/ir/module.h"
#include "treadle/ir/transform.h"
#include "treadle/runtime/manifest.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::driver {

/// What is dumped: "relay" (as imported), "relay-opt" (fused), "fusion" (groups, and why others weren't formed), "tir"
/// (lowered), "ll", "asm", "c" (target c), "graph", "vm",
/// "partition" (what went to external code generators, and why the rest didn't).
struct DumpOptions {
  std::vector<std::string> stages;
  std::string directory = ".";      ///< files <stage>.relay, .tir, .ll, .s, .json are written there
  std::vector<std::string> inputs;  ///< files that are being compiled, which no dump may replace
  bool Wants(const std::string& stage) const;
};

struct CompileOptions {
  std::string target = "llvm -mcpu=native";
  /// For models on several devices: their targets by DLDeviceType (0: the device of the target's kind). What isn't
  /// annotated runs on the fallback device, option relay.fallback_device_type (CPU). Empty: `target` alone.
  std::map<int, std::string> device_targets;
  std::string target_host;              ///< for the code that calls kernels; empty: chosen from the targets
  std::string module_name = "default";  ///< part of the kernels' symbols, and the name of the executor factory
  int opt_level = 3;
  std::vector<std::string> required_pass;
  std::vector<std::string> disabled_pass;
  std::map<std::string, std::string> config;                 ///< pass options, as text
  std::map<std::string, std::vector<int64_t>> input_shapes;  ///< by input name
  std::map<std::string, int64_t> dims;                       ///< by symbolic dimension
  std::map<std::string, std::string> dim_ranges;             ///< by symbolic dimension that stays open: DimRange's text
  std::map<std::string, runtime::NDArray> constants;         ///< ONNX inputs that are fixed to a value, by name
  std::vector<std::string> overridable;  ///< ONNX initializers that are defaults of inputs: made inputs
  std::string executor = "auto";         ///< or "graph", "vm": the graph executor if it can run the model
  std::vector<std::string> external;     ///< external code generators (external/codegen.h), best first; or "auto"
  DumpOptions dump;
  std::vector<ObjectPtr<transform::PassInstrument>> instruments;  ///< watch the passes
  /// The passes run in the thread's PassContext, instruments included; level, passes and config above aren't used.
  bool inherit_context = false;
  int64_t max_model_memory = 0;   ///< bytes that the parts of an ONNX file may take; 0: about ten times its size
  int threads = 0;                ///< for compiling; 0: all that the machine gives this process
  bool use_cache = true;          ///< the cache of kernels on disk
  ProgressFn progress = nullptr;  ///< null: no progress is reported
};

/// Kernels in memory with the graph that calls them.
struct CompiledModel {
  std::string graph_json;
  std::string vm_text;  ///< of vm_program: its instructions
  /// Instead of a graph where the manifest says "vm": a vm::Program, whose constants are params.
  std::string vm_program;
  std::vector<std::pair<std::string, runtime::NDArray>> params;
  runtime::Module library;                        ///< the kernels, importing device and external modules
  std::string target;                             ///< canonical text
  runtime::Manifest manifest;                     ///< inputs and outputs, and what the library says of itself
  IRModule optimized;                             ///< the fused graph IR
  std::string memory_report;                      ///< what is stored where, as text
  std::vector<runtime::Module> external_modules;  ///< what external code generators made
  std::string partition;                          ///< what went to them, and why the rest didn't
  size_t num_kernels = 0, cached_kernels = 0;     ///< distinct kernels; those that came from the cache on disk
  /// The kernels in low-level form by target text.
  std::function<std::map<std::string, IRModule>()> lowered;
  std::shared_ptr<struct GraphCode> code;  ///< of the compiler's own
};

/// Attribute of main: Array<String>, names of the results.
inline constexpr const char* kOutputNames = "output_names";

/// Registers every node, operator, pass, backend and function of the compiler. Safe to call repeatedly.
void RegisterAll();

/// Optimises, lowers and generates code for "main" of a module. `params` binds parameters of main by name; a name
/// that main doesn't have is an Error.
CompiledModel Build(IRModule module, const std::vector<std::pair<std::string, runtime::NDArray>>& params,
                    const CompileOptions& options);
/// Imports an ONNX file (external data beside it) and builds it.
CompiledModel CompileOnnxFile(const std::string& path, const CompileOptions& options);
/// As CompileOnnxFile for a serialised ModelProto in memory; external data is looked up in `directory` if given.
CompiledModel CompileOnnxBytes(std::string bytes, const CompileOptions& options, const std::string& directory = "");
/// Links one self-contained shared library: kernels, graph, parameters, manifest, and the modules that the kernels
/// import. A path that ends in ".tar" gets the objects instead, for linking elsewhere.
void ExportLibrary(const CompiledModel& model, const std::string& path);
/// As ExportLibrary for any tree of modules that compiling made: kernels, an executor factory around them, ..
void ExportModule(const runtime::Module& module, const std::string& path);

}  // namespace treadle::driver
