// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <map>

#include "cli/commands.h"
#include "cli/input_shapes.h"
#include "cli/json.h"
#include "cli/session.h"
#include "cli/timing.h"
#include "runtime/file_io.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

struct RunVerb {
  CompileFlags flags;
  std::vector<std::string> inputs;
  std::string output, profile, dump_tensors, device = "cpu";
  int repeat = 1, threads = 0;
  bool json = false, check_nan = false;

  int Run() const {
    if (runtime::ParseDevice(device).device_type != kDLCPU) {
      throw TargetError(StrCat("device ", device, " isn't available; this build runs on: cpu"));
    }
    CheckOutputs();
    const runtime::Model model = LoadOrCompile(WithInputShapes(flags.Parse(), inputs, /*fills=*/false));
    const runtime::NamedTensors values = MakeInputs(model, inputs);
    runtime::ModelContext context = model.CreateContext();
    context.SetThreads(threads);
    for (const auto& [name, tensor] : values) context.SetInput(name, tensor);
    if (check_nan) context.RunProfiled(/*stop_at_nan=*/true);
    if (!dump_tensors.empty()) DumpTensors(&context);
    std::vector<double> times;
    for (int i = 0; i < std::max(1, repeat); ++i) {
      const auto start = std::chrono::steady_clock::now();
      context.Run();
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::vector<NDArray> results;
    for (size_t i = 0; i < model.outputs().size(); ++i) results.push_back(context.GetOutput(i));
    const NamedTensors named = NameOutputs(model, results);
    if (!output.empty()) WriteTensors(output, named);
    Print(named, times);
    if (!profile.empty()) Profile(&context);
    return 0;
  }

  /// Before anything is computed. None may be the model or an input.
  void CheckOutputs() const {
    std::vector<std::string> files{flags.request.model};
    for (const std::string& input : inputs) files.push_back(input.substr(input.find('=') + 1));
    for (const std::string& path : {output, profile, dump_tensors}) {
      if (!path.empty()) runtime::CheckOutputPath(path, runtime::FileKind::kAny, files);
    }
  }

  void Print(const NamedTensors& outputs, const std::vector<double>& times) const {
    if (json) {
      Json report{{"outputs", Json::array()}, {"times", ToJson(Summarise(times))}};
      for (const auto& [name, tensor] : outputs) {
        report["outputs"].push_back({{"name", name}, {"shape", tensor.shape()}, {"dtype", tensor.dtype().str()}});
      }
      std::cout << report.dump() << "\n";
      return;
    }
    for (const auto& [name, tensor] : outputs) std::cout << name << ": " << Describe(tensor) << "\n";
    std::cout << ToText(Summarise(times)) << "\n";
  }

  /// Writes what every call of one run computes: <node>, or <node>.<output> where there are several.
  void DumpTensors(runtime::ModelContext* context) const {
    runtime::GraphContext* graph = context->executor().graph();
    if (graph == nullptr) throw Error("--dump-tensors: the model's executor doesn't show intermediate values");
    NamedTensors tensors;
    graph->RunVisiting([&](uint32_t node, uint32_t index, const NDArray& value) {
      const auto& spec = graph->model().spec().nodes[node];
      tensors.emplace_back(spec.num_outputs == 1 ? spec.name : StrCat(spec.name, ".", index), value.Copy());
    });
    WriteTensors(dump_tensors, tensors);
  }

  void Profile(runtime::ModelContext* context) const {
    std::vector<runtime::OpTiming> timings = context->RunProfiled();
    WriteWholeFile(profile, runtime::ChromeTrace(timings));
    if (json) return;
    double total = 0;
    std::map<std::string, std::pair<int, double>> by_compiler;  // calls and seconds
    for (const auto& timing : timings) {
      total += timing.seconds;
      auto& sum = by_compiler[timing.compiler];
      ++sum.first, sum.second += timing.seconds;
    }
    if (by_compiler.size() > 1 || by_compiler.count("") == 0) {
      for (const auto& [compiler, sum] : by_compiler) {
        std::cout << (compiler.empty() ? "Treadle" : compiler) << ": " << sum.first << " calls, " << std::fixed
                  << std::setprecision(3) << sum.second * 1e3 << " ms\n";
      }
    }
    std::sort(timings.begin(), timings.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    std::cout << "the slowest of " << timings.size() << " calls (trace: " << profile << "):\n";
    for (size_t i = 0; i < std::min<size_t>(10, timings.size()); ++i) {
      std::cout << std::fixed << std::setprecision(3) << std::setw(10) << timings[i].seconds * 1e3 << " ms "
                << std::setprecision(1) << std::setw(5) << 100 * timings[i].seconds / total << " %  ";
      if (timings[i].macs > 0) {
        std::cout << std::setw(7) << 2e-9 * timings[i].macs / timings[i].seconds << " GFLOP/s  ";
      } else {
        std::cout << std::string(17, ' ');
      }
      std::cout << timings[i].func_name << "\n";
    }
  }
};

}  // namespace

void AddRun(CLI::App* app, Action* action) {
  auto verb = std::make_shared<RunVerb>();
  Verb sub(app, "run", "run a model", action, [verb] { return verb->Run(); });
  sub.Add("model", &verb->flags.request.model, "a compiled .so, or an .onnx file").Required();
  sub.Add("-i,--input", &verb->inputs, "name=file (.npy, .npz, .pb), or random, ones, zeros; repeatable").OneEach();
  sub.Add("-o,--output", &verb->output, "where the outputs go: .npz (keys are their names) or .npy");
  sub.Add("--repeat", &verb->repeat, "number of runs (1)").Positive();
  sub.Add("--threads", &verb->threads, "threads (all)").Threads();
  sub.Add("--profile", &verb->profile, "write a trace for ui.perfetto.dev");
  sub.Add("--dump-tensors", &verb->dump_tensors, "write the results of all calls to an .npz file");
  sub.Add("--check-nan", &verb->check_nan, "run call by call first, and stop at the first NaN");
  sub.Add("--device", &verb->device, "where to run (cpu)");
  sub.Add("--json", &verb->json, "machine-readable output");
  verb->flags.AddTo(&sub);
}

}  // namespace treadle::cli
