// SPDX-License-Identifier: Apache-2.0
// The verbs. Each adds its flags to the parser and a function to run; see design in docs/architecture.md.
#pragma once

#include <string>
#include <vector>

#include "cli/compiler_api.h"
#include "cli/flags.h"
#include "cli/session.h"

namespace treadle::cli {

/// Flags that all verbs which may compile have.
struct CompileFlags {
  CompileRequest request;
  std::vector<std::string> input_shapes, dims, external, overridable, disabled_pass, required_pass, pass_config, dump,
      check_passes;
  std::string precision;  ///< of products; empty: as the model states
  std::string accuracy;   ///< strict, default or fast; empty: default
  double max_error = -1;  ///< of outputs, relative to their norm, with precision auto; negative: not given
  bool quiet = false, verbose = false, calibration = true;
  bool quick = false;  ///< few of LLVM's passes
  /// The verb makes inputs: --dim and --input-shapes say their sizes where the model is compiled already.
  bool fills_inputs = false;
  std::string records, max_model_memory, max_tensor_bytes, huge_pages;

  void AddTo(Verb* verb);
  /// The request, its flags parsed. Throws Error where flags of compiling are given for a compiled model.
  CompileRequest Parse() const;

 private:
  std::vector<Flag> how_;    ///< those that say how to compile
  std::vector<Flag> sizes_;  ///< those that may say sizes of inputs instead
};

/// Flags of verbs that run a model.
struct InputFlags {
  std::vector<std::string> texts;  ///< of --input
  int seed = 0;
  std::string mean, scale;

  /// `flags`: of the same verb. `others`: what becomes of inputs that aren't given.
  void AddTo(Verb* verb, CompileFlags* flags, const std::string& others = "");
  /// `sizes`: what the flags of compiling say of them; of effect where the model is compiled already.
  InputOptions Parse(const CompileRequest& sizes) const;
};

void AddCompile(CLI::App* app, Action* action);
void AddRun(CLI::App* app, Action* action);
void AddProfile(CLI::App* app, Action* action);
void AddBench(CLI::App* app, Action* action);
void AddVerify(CLI::App* app, Action* action);
void AddQuantize(CLI::App* app, Action* action);
void AddReport(CLI::App* app, Action* action);
void AddInspect(CLI::App* app, Action* action);
void AddCache(CLI::App* app, Action* action);
void AddTune(CLI::App* app, Action* action);      ///< tune, records
void AddMeasure(CLI::App* app, Action* action);   ///< what a tuner runs
void AddListings(CLI::App* app, Action* action);  ///< ops, targets, doctor

/// Parses the command line and runs the verb; errors go to stderr as one line. Returns the exit status.
int Main(int argc, char** argv);

}  // namespace treadle::cli
