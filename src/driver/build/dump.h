// SPDX-License-Identifier: Apache-2.0
// Writes the stages of a compilation as readable text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "driver/lower/compile_engine.h"
#include "treadle/driver/compile.h"

namespace treadle::driver {

class Dumper {
 public:
  /// Throws Error on a stage that doesn't exist, listing those that do, and creates the directory.
  explicit Dumper(const DumpOptions& options);
  /// Writes <directory>/<stage>.<extension> if the stage was asked for. Throws Error where the file can't be written.
  void Write(const std::string& stage, const std::function<std::string()>& text) const;

 private:
  const DumpOptions& options_;
};

/// The stages that are code: formats of text that targets have for it (TargetSpec::texts).
std::vector<std::string> CodeStages();

std::string RelayText(const IRModule& module);
/// How kernels were chosen: `graph`, what ChoiceLog collected of the graph, and then each kernel's own choices.
std::string ChoicesText(const std::string& graph, const CompileEngine& engine);
/// The kernels as they were lowered.
std::string KernelsText(const CompileEngine& engine);

}  // namespace treadle::driver
