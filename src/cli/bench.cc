// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <iostream>

#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/input_shapes.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/timing.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

// Arguments: engine, model, inputs.npz, threads, repeat. Prints one time per line.
constexpr const char* kPeerScript = R"py(
import os, sys, time
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
engine, path, inputs_file, threads, repeat = sys.argv[1:6]
threads, repeat = int(threads), int(repeat)
try:
    import numpy as np
    inputs = dict(np.load(inputs_file))
    if engine == "onnxruntime":
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        run = lambda: session.run(None, inputs)
    else:
        import openvino
        model = openvino.Core().read_model(path)
        model.reshape({name: list(value.shape) for name, value in inputs.items()})
        config = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                  "ENABLE_HYPER_THREADING": True, "ENABLE_CPU_PINNING": False}
        if threads:
            config["INFERENCE_NUM_THREADS"] = threads
        request = openvino.compile_model(model, "CPU", config).create_infer_request()
        run = lambda: request.infer(inputs)
except ImportError as error:
    sys.exit(f"error: the Python {sys.executable} has no {engine}: {error}")
except Exception as error:
    sys.exit(f"error: {engine} fails: " + str(error).splitlines()[0])
for _ in range(3):
    run()
for _ in range(repeat):
    start = time.perf_counter()
    run()
    print(time.perf_counter() - start)
)py";

struct BenchVerb {
  CompileFlags flags;
  std::vector<std::string> inputs, compare;
  int repeat = 20, threads = 0;
  std::string json_file;

  int Run() const {
    double compile_seconds = 0;
    const CompileRequest request = WithInputShapes(flags.Parse(), inputs, /*fills=*/true);
    const std::vector<std::string> peers = SplitLists(compare);
    for (const std::string& peer : peers) {
      if (peer != "onnxruntime" && peer != "openvino") {
        throw Error(StrCat("--compare: unknown engine '", peer, "'; known: onnxruntime, openvino"));
      }
      if (!IsOnnx(request.model))
        throw Error(StrCat(request.model, ": --compare needs the .onnx file, not the compiled one"));
    }
    const runtime::Model model = LoadOrCompile(request, &compile_seconds);
    const runtime::NamedTensors values = MakeInputs(model, inputs, "random");

    // In turns, so that what else the machine does hits all.
    constexpr int kRounds = 3;
    std::vector<std::vector<double>> times(1 + peers.size());
    runtime::TemporaryDirectory folder;
    if (!peers.empty()) WriteTensors(folder.Path("inputs.npz"), {values.begin(), values.end()});
    for (int round = 0; round < kRounds; ++round) {
      const int per_round = repeat / kRounds + (round < repeat % kRounds ? 1 : 0);
      if (per_round == 0) break;
      Append(&times[0], TimeOwn(model, values, per_round));
      for (size_t i = 0; i < peers.size(); ++i)
        Append(&times[i + 1], TimePeer(peers[i], request.model, folder, per_round));
    }
    Report(peers, times, compile_seconds, WhatIsMeasured(model, values));
    return 0;
  }

  static void Append(std::vector<double>* all, const std::vector<double>& some) {
    all->insert(all->end(), some.begin(), some.end());
  }

  std::vector<double> TimeOwn(const runtime::Model& model, const runtime::NamedTensors& values, int runs) const {
    runtime::ModelContext context = model.CreateContext();
    context.SetThreads(threads);
    for (const auto& [name, tensor] : values) context.SetInput(name, tensor);
    for (int i = 0; i < 3; ++i) context.Run();
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
      const auto start = std::chrono::steady_clock::now();
      context.Run();
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return times;
  }

  std::vector<double> TimePeer(const std::string& peer, const std::string& model,
                               const runtime::TemporaryDirectory& folder, int runs) const {
    const std::string file = folder.Path("times");
    const int status = RunProgram(
        {PythonProgram(), "-c", kPeerScript, peer, model, folder.Path("inputs.npz"), StrCat(threads), StrCat(runs)},
        file);
    if (status == 127) throw RuntimeError(StrCat("can't start ", PythonProgram(), "; set TREADLE_PYTHON"));
    if (status != 0) throw RuntimeError(StrCat(peer, " couldn't be measured"));
    std::vector<double> times;
    for (const std::string& word : SplitWords(ReadWholeFile(file))) times.push_back(ParseDouble(word).value_or(0));
    return times;
  }

  /// "x float32 (1, 3, 224, 224); all threads; llvm ...".
  std::string WhatIsMeasured(const runtime::Model& model, const runtime::NamedTensors& values) const {
    std::string text;
    for (const auto& [name, tensor] : values) {
      text += StrCat(text.empty() ? "" : ", ", name, " ", tensor.dtype(), " ", runtime::ShapeString(tensor.shape()));
    }
    return StrCat(text, "; ", threads == 0 ? "all" : std::to_string(threads), " thread", threads == 1 ? "" : "s", "; ",
                  model.manifest().target);
  }

  void Report(const std::vector<std::string>& peers, const std::vector<std::vector<double>>& times,
              double compile_seconds, const std::string& what) const {
    const TimeSummary own = Summarise(times[0]);
    std::cout << what << "\n";
    Json report{
        {"model", flags.request.model}, {"threads", threads}, {"compile_s", compile_seconds}, {"measured", what}};
    report["engines"]["treadle"] = ToJson(own);
    std::cout << fmt::format("{:12s} {}\n", "treadle", ToText(own));
    for (size_t i = 0; i < peers.size(); ++i) {
      const TimeSummary peer = Summarise(times[i + 1]);
      report["engines"][peers[i]] = ToJson(peer);
      report["engines"][peers[i]]["treadle_ratio"] = own.median / peer.median;
      std::cout << fmt::format("{:12s} {}; treadle takes {:.2f} x its time\n", peers[i], ToText(peer),
                               own.median / peer.median);
    }
    if (!json_file.empty()) WriteWholeFile(json_file, report.dump(1) + "\n");
  }
};

}  // namespace

void AddBench(CLI::App* app, Action* action) {
  auto verb = std::make_shared<BenchVerb>();
  Verb sub(app, "bench", "measure how long a model takes", action, [verb] { return verb->Run(); });
  sub.Add("model", &verb->flags.request.model, "an .onnx file, or a compiled .so").Required();
  sub.Add("-i,--input", &verb->inputs, "as in run; random where not given").OneEach();
  sub.Add("--repeat", &verb->repeat, "number of measured runs (20)").Positive();
  sub.Add("--threads", &verb->threads, "threads (all)").Threads();
  sub.Add("--compare", &verb->compare, "also measure: onnxruntime,openvino (Python packages)");
  sub.Add("--json", &verb->json_file, "write the results to this file");
  verb->flags.AddTo(&sub);
}

}  // namespace treadle::cli
