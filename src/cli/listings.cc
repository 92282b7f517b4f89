// SPDX-License-Identifier: Apache-2.0
// ops, targets, doctor.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/options.h"
#include "treadle/base/error.h"
#include "treadle/base/json.h"
#include "treadle/runtime/limits.h"
#include "treadle/runtime/manifest.h"
#include "treadle/runtime/plugin.h"

namespace treadle::cli {
namespace {

int PrintMarkdown(const std::vector<ListRow>& rows) {
  std::cout << "| operator | |\n|---|---|\n";
  for (const ListRow& row : rows) std::cout << fmt::format("| {} | {} |\n", row.name, row.text);
  return 0;
}

int Print(const std::vector<ListRow>& rows, bool json) {
  if (json) {
    Json list = Json::array();
    for (const ListRow& row : rows) list.push_back({{"name", row.name}, {"text", row.text}});
    std::cout << list.dump(1) << "\n";
    return 0;
  }
  size_t width = 0;
  for (const ListRow& row : rows) width = std::max(width, row.name.size());
  for (const ListRow& row : rows) std::cout << fmt::format("{:{}}  {}\n", row.name, width, row.text);
  return 0;
}

/// What a model needs that can't be imported: one line for each node. The exit code says whether there is any.
int CheckModel(const std::string& path, bool json) {
  std::vector<ListRow> operators;
  const std::vector<std::string> unsupported = Compiler().check_model(path, &operators);
  if (json) {
    Json result{{"unsupported", unsupported}, {"operators", Json::object()}};
    for (const ListRow& row : operators) result["operators"][row.name] = row.text;
    std::cout << result.dump(1) << "\n";
  } else {
    Print(operators, false);
    for (const std::string& node : unsupported) std::cout << "unsupported: " << node << "\n";
    if (unsupported.empty()) std::cout << "all nodes can be imported\n";
  }
  return unsupported.empty() ? 0 : static_cast<int>(ExitCode::kUnsupported);
}

struct OpsVerb {
  std::string model;
  int opset = 0;
  bool json = false, markdown = false;

  int Run() const {
    if (!model.empty() && (opset > 0 || markdown))
      throw Error("ops --model lists one model: without --opset, --markdown");
    if (json && markdown) throw Error("--json and --markdown contradict each other");
    if (!model.empty()) return CheckModel(model, json);
    const std::vector<ListRow> rows = Compiler().list_ops(opset);
    return markdown ? PrintMarkdown(rows) : Print(rows, json);
  }
};

/// As the system calls it; "" where it doesn't say.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  }
  return "";
}

std::string CoresText() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int usable = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
  return StrCat(usable, " usable of ", std::thread::hardware_concurrency());
}

std::string PythonText() {
  const char* script =
      "import importlib.util as u\n"
      "print(', '.join(n for n in ('onnxruntime', 'openvino', 'onnx', 'numpy') if u.find_spec(n)))";
  if (RunPython(script, {}, "/dev/null") != 0) {
    return StrCat(PythonProgram(), " doesn't start: verify and bench --compare won't work (set TREADLE_PYTHON)");
  }
  std::string found;
  for (const char* package : {"onnxruntime", "openvino"}) {
    const std::string test = StrCat("import importlib.util as u, sys; sys.exit(u.find_spec('", package, "') is None)");
    const bool there = RunPython(test) == 0;
    found += StrCat(found.empty() ? "" : ", ", package, there ? " found" : " missing");
  }
  return StrCat(PythonProgram(), ": ", found);
}

int Doctor(bool json) {
  std::vector<ListRow> rows{{"treadle", FullVersion()}, {"cores", CoresText()}};
  if (const std::string name = ProcessorName(); !name.empty()) rows.push_back({"processor", name});
  rows.push_back(
      {"memory", StrCat(static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) >> 20, " MiB")});
  if (FindCompiler() == nullptr) {
    rows.push_back({"compiler", "missing: only compiled models can be run"});
  } else {
    rows.push_back({"compiler", "found"});
    for (const ListRow& row : Compiler().describe_machine()) rows.push_back(row);
    const CacheStats cache = Compiler().cache_stats();
    rows.push_back({"cache", cache.directory.empty() ? "off"
                             : !cache.problem.empty()
                                 ? "not used: " + cache.problem
                                 : StrCat(cache.directory, ": ", cache.kernels, " kernels, ", cache.models, " models, ",
                                          SizeText(cache.bytes), " of at most ", SizeText(cache.limit))});
  }
  rows.push_back({"largest tensor", StrCat(runtime::MaxTensorBytes() >> 20, " MiB (--max-tensor-bytes)")});
  const char* plugins = std::getenv("TREADLE_PLUGIN_PATH");
  rows.push_back({"plug-ins", StrCat(runtime::RuntimeDirectory(), plugins != nullptr ? StrCat(", ", plugins) : "")});
  rows.push_back({"python", PythonText()});
  return Print(rows, json);
}

/// Measures this machine for the compiler's cost models.
int Calibrate(bool json) { return Print({{"calibration", Compiler().calibrate()}}, json); }

int ForgetCalibration() {
  std::cout << (Compiler().forget_calibration() ? "the calibration is forgotten\n" : "there is no calibration\n");
  return 0;
}

}  // namespace

void AddListings(CLI::App* app, Action* action) {
  auto json = std::make_shared<bool>(false);
  const auto add = [&](const char* name, const char* text, std::function<int()> run) {
    Verb(app, name, text, action, std::move(run)).Add("--json", json.get(), "machine-readable output");
  };
  auto ops = std::make_shared<OpsVerb>();
  Verb list(app, "ops", "list the supported ONNX operators and versions, or the unsupported nodes of a model", action,
            [ops] { return ops->Run(); });
  list.Add("--json", &ops->json, "machine-readable output");
  list.Add("--markdown", &ops->markdown, "print a Markdown table");
  list.Add("--opset", &ops->opset, "list the operator versions of this ONNX opset").Positive();
  list.Add("--model", &ops->model, "list the operators of this model, and every node that is not supported");
  add("targets", "list targets and external code generators",
      [json] { return Print(Compiler().list_targets(), *json); });
  auto calibrate = std::make_shared<bool>(false), forget = std::make_shared<bool>(false);
  Verb doctor(app, "doctor", "show the features of this machine and installation, or calibrate for it", action,
              [json, calibrate, forget] {
                if (*calibrate && *forget) throw Error("--calibrate and --forget-calibration contradict each other");
                return *calibrate ? Calibrate(*json) : *forget ? ForgetCalibration() : Doctor(*json);
              });
  doctor.Add("--json", json.get(), "machine-readable output");
  doctor.Add("--calibrate", calibrate.get(),
             "measure this machine for a few seconds; builds for -mcpu=native then choose kernels by the results");
  doctor.Add("--forget-calibration", forget.get(), "delete the results of --calibrate");
}

}  // namespace treadle::cli
