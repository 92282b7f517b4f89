// SPDX-License-Identifier: Apache-2.0
#include "driver/build/dump.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "runtime/file_io.h"
#include "treadle/base/suggest.h"
#include "treadle/relay/text.h"
#include "treadle/targets/target_spec.h"
#include "treadle/tir/text.h"

namespace treadle::driver {
namespace {

/// Stages with the endings of their files.
std::map<std::string, std::string> Stages() {
  std::map<std::string, std::string> stages = {{"relay", "relay"},   {"relay-opt", "relay"}, {"tir", "tir"},
                                               {"graph", "json"},    {"vm", "vm"},           {"fusion", "txt"},
                                               {"partition", "txt"}, {"kernels", "txt"},     {"explain", "txt"}};
  for (const std::string& format : CodeStages()) stages[format] = format;
  stages["asm"] = "s";
  return stages;
}

}  // namespace

std::vector<std::string> CodeStages() {
  std::vector<std::string> stages;
  for (const std::string& kind : targets::ListTargets()) {
    const targets::TargetSpec& spec = targets::GetTargetSpec(kind);
    if (spec.form != targets::ModuleForm::kObjects) continue;
    for (const std::string& format : spec.texts) {
      if (std::find(stages.begin(), stages.end(), format) == stages.end()) stages.push_back(format);
    }
  }
  return stages;
}

bool DumpOptions::Wants(const std::string& stage) const {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

Dumper::Dumper(const DumpOptions& options) : options_(options) {
  const std::map<std::string, std::string> stages = Stages();
  for (const std::string& stage : options.stages) {
    if (stages.count(stage) != 0) continue;
    std::string known;
    std::vector<std::string> names;
    for (const auto& [name, extension] : stages) {
      known += (known.empty() ? "" : ", ") + name;
      names.push_back(name);
    }
    throw Error(StrCat("can't dump '", stage, "'; stages are: ", known, DidYouMean(stage, names)));
  }
  if (options.stages.empty()) return;
  runtime::CheckOutputFolder(options.directory);
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  if (error) throw Error(StrCat("can't create directory '", options.directory, "': ", error.message()));
}

void Dumper::Write(const std::string& stage, const std::function<std::string()>& text) const {
  if (!options_.Wants(stage)) return;
  std::string path = options_.directory + "/" + stage + "." + Stages().at(stage);
  runtime::CheckOutputPath(path, runtime::FileKind::kAny, options_.inputs);
  runtime::WriteFile(path, text());
}

std::string RelayText(const IRModule& module) { return relay::AsText(module, /*show_meta_data=*/false); }

std::string ChoicesText(const std::string& graph, const CompileEngine& engine) {
  std::string text = "# Operators of the graph: the kernel that was chosen (*), and the others.\n" + graph;
  text += "# Loops of its kernels.\n";
  for (const auto& kernel : engine.kernels()) {
    if (!kernel->choices.empty()) text += StrCat("# ", kernel->symbol, "\n", kernel->choices);
  }
  return text;
}

std::string KernelsText(const CompileEngine& engine) {
  std::string text;
  for (const auto& kernel : engine.kernels()) text += tir::AsText(kernel->lowered) + "\n";
  return text;
}

}  // namespace treadle::driver
