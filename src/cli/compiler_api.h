// SPDX-License-Identifier: Apache-2.0
// What the command line asks of the compiler. The program itself links the runtime only; verbs that compile load
// libtreadle_cli_compiler.so, which lies beside the runtime.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/progress.h"
#include "treadle/runtime/model.h"

namespace treadle::cli {

struct CompileRequest {
  std::string model;
  std::string output;
  std::string target = "llvm -mcpu=native";
  std::map<std::string, std::vector<int64_t>> input_shapes;
  std::map<std::string, int64_t> dims;
  std::map<std::string, std::string> dim_ranges;  ///< of dimensions that stay open: "1..8", "32k"
  int opt_level = 3;
  std::vector<std::string> overridable;  ///< initializers that become inputs
  std::vector<std::string> external, plugins, disabled_pass, required_pass;
  std::map<std::string, std::string> pass_config;
  std::vector<std::string> dump;
  std::string dump_dir = ".";
  int threads = 0;
  int64_t max_model_memory = 0;           ///< bytes that the parts of an ONNX file may take; 0: by its size
  bool pass_timing = false;               ///< measure the passes over the graph
  std::vector<std::string> check_passes;  ///< around each pass: "types" (well-formedness, types), "numbers" (results)
  bool use_cache = true;                  ///< of kernels, on disk
  Verbosity verbosity = Verbosity::kNormal;
  std::function<void(const std::string& pass)> on_pass;                     ///< before each pass; may be null
  std::function<void(size_t done, size_t total, size_t cached)> on_kernel;  ///< after each kernel; may be null
};

/// A measured run of a model, for its page.
struct PageRequest {
  std::string output;  ///< the file to write
  std::string title;
  runtime::Model model;
  std::vector<runtime::OpTiming> timings;  ///< of each call, in the order of the run
  double seconds = 0;                      ///< a run's, without measuring its calls
  int threads = 0;
  std::string choices;  ///< what explain prints; "" for a compiled file
  struct Layer {
    std::string name;
    double largest = 0, snr = 0;  ///< absolute difference; dB
  };
  std::vector<Layer> layers;                                         ///< compared with a reference's; may be empty
  std::vector<std::pair<std::string, std::string>> facts;            ///< further ones: name, value
  std::vector<std::pair<std::string, std::vector<double>>> engines;  ///< seconds of runs, by engine; may be empty
};

struct TuneRequest {
  CompileRequest compile;  ///< its output isn't used
  std::string output;      ///< file of records
  double seconds = 600;
  int threads = 0, jobs = 0, trials = 0;
  int64_t seed = 0;
  bool resume = true, dry_run = false, graph = true;
  std::function<void(const std::string& line)> progress;
};

struct TuneResult {
  std::string text, json, html;
};

struct RecordRow {
  std::string state, kernel, problem, plan, machine;
  std::string why_not;  ///< why this build wouldn't take it; "" where it would
  double ratio = 1, hi = 1;
};

struct RecordsSummary {
  size_t lines = 0;
  std::vector<RecordRow> rows;
  std::vector<std::string> faults;  ///< lines that are left out
  bool foreign = false;             ///< no line is one of a file of records
};

/// The cache of kernels on disk.
struct CacheStats {
  std::string directory;  ///< empty: the cache is off
  uint64_t kernels = 0, models = 0, bytes = 0, limit = 0;
  std::string problem;  ///< why nothing is kept there; empty: nothing is wrong
};

/// An input as an ONNX model declares it. Dimensions that the file doesn't fix are -1, with a name or without.
struct DeclaredInput {
  std::string name;
  bool has_shape = true;
  std::vector<int64_t> shape;
  std::vector<std::string> dim_names;
};

/// A row of a listing: name and text.
struct ListRow {
  std::string name;
  std::string text;
};

/// Functions throw treadle::Error.
struct CompilerApi {
  /// Returns the report that the request asks for: the times of the passes, or "".
  std::string (*compile)(const CompileRequest& request);
  /// The inputs of an ONNX file, without those that have an initial value.
  std::vector<DeclaredInput> (*declared_inputs)(const std::string& path);
  /// Throws Error for a range of sizes that can't be read, or holds none.
  void (*check_range)(const std::string& dimension, const std::string& range);
  /// All ONNX operators with their versions; of an opset (0: of all) those in force. Throws Error for one beyond those.
  std::vector<ListRow> (*list_ops)(int opset);
  std::vector<ListRow> (*list_targets)();
  std::vector<ListRow> (*describe_machine)();
  std::string (*calibrate)();    ///< measures this machine for the cost models; what it found
  bool (*forget_calibration)();  ///< whether there was one
  CacheStats (*cache_stats)();
  uint64_t (*cache_clear)();  ///< returns the number of kernels and models removed
  void (*cache_set_limit)(uint64_t bytes);
  /// Nodes of a model that can't be imported, a text for each: name, operator, version, reason. Names other rows by the
  /// operator, and gives how often the model has it.
  std::vector<std::string> (*check_model)(const std::string& path, std::vector<ListRow>* operators);
  TuneResult (*tune)(const TuneRequest& request);
  /// Records of a file's text; `best`: those that builds on their machines take.
  RecordsSummary (*check_records)(const std::string& text, bool best);
  /// The text of a file without what builds don't take.
  std::string (*prune_records)(const std::string& text);
  void (*write_page)(const PageRequest& request);
  /// Seconds that each call takes at least on this machine, which is measured; 0 where that isn't known, as for other
  /// targets.
  std::vector<double> (*least_seconds)(const std::vector<runtime::OpTiming>& timings, const std::string& target,
                                       int threads);
};

/// Loads the compiler; a RuntimeError that says what is missing when it isn't installed.
const CompilerApi& Compiler();
/// As Compiler, but null when it isn't installed.
const CompilerApi* FindCompiler();

}  // namespace treadle::cli

extern "C" const treadle::cli::CompilerApi* treadle_cli_compiler_api();
