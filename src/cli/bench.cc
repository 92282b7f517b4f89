// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <thread>

#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/input_shapes.h"
#include "cli/measured_run.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/timing.h"
#include "treadle/base/error.h"
#include "treadle/base/json.h"
#include "treadle/base/suggest.h"

namespace treadle::cli {
namespace {

// Arguments: engine, model, inputs.npz, threads, repeat, seconds, warm-up, requests. Prints one time per line; with
// several requests at once the runs per second of all alone.
constexpr const char* kPeerScript = R"py(
import os, sys, threading, time
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
engine, path, inputs_file = sys.argv[1:4]
threads, repeat, seconds, warm_up, requests = (float(text) for text in sys.argv[4:9])
threads, repeat, warm_up, requests = int(threads), int(repeat), int(warm_up), int(requests)
try:
    import numpy as np
    inputs = dict(np.load(inputs_file))
    if engine == "onnxruntime":
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        make = lambda: lambda: session.run(None, inputs)
    else:
        import openvino
        model = openvino.Core().read_model(path)
        model.reshape({name: list(value.shape) for name, value in inputs.items()})
        config = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": requests, "ENABLE_CPU_PINNING": False,
                  "PERFORMANCE_HINT": "LATENCY" if requests == 1 else "THROUGHPUT", "ENABLE_HYPER_THREADING": True}
        if threads:
            config["INFERENCE_NUM_THREADS"] = threads * requests
        compiled = openvino.compile_model(model, "CPU", config)
        def make():
            request = compiled.create_infer_request()
            return lambda: request.infer(inputs)
except ImportError as error:
    sys.exit(f"note: the Python {sys.executable or 'python3'} has no {engine}: {error}")
except Exception as error:
    sys.exit(f"note: {engine} fails: " + str(error).splitlines()[0])
runs = [make() for _ in range(requests)]
for run in runs:
    for _ in range(warm_up):
        run()
def measure(run, times):
    begin = time.perf_counter()
    while (time.perf_counter() - begin < seconds) if seconds else (len(times) < repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
if requests == 1:
    times = []
    measure(runs[0], times)
    print("\n".join(map(repr, times)))
else:
    counts = [[] for _ in runs]
    workers = [threading.Thread(target=measure, args=pair) for pair in zip(runs, counts)]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(sum(map(len, counts)) / (time.perf_counter() - begin))
)py";

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// How much is measured at a time.
struct Budget {
  int runs = 0;
  double seconds = 0;  ///< where this isn't 0, runs don't count
};

/// Runs until the budget is spent.
std::vector<double> TimeRuns(runtime::ModelContext* context, const Budget& budget) {
  std::vector<double> times;
  const auto begin = Clock::now();
  while (budget.seconds > 0 ? SecondsSince(begin) < budget.seconds : static_cast<int>(times.size()) < budget.runs) {
    const auto start = Clock::now();
    context->Run();
    times.push_back(SecondsSince(start));
  }
  return times;
}

/// Of this process so far, in bytes.
double PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

/// What one engine did.
struct Measured {
  std::vector<double> times;  ///< of single runs, seconds
  double rate = 0;            ///< runs per second with several requests; 0: not measured
};

constexpr int kMaxRequests = 1024;

struct BenchVerb {
  CompileFlags flags;
  InputFlags inputs;
  std::vector<std::string> compare;
  int repeat = 20, threads = 0, warm_up = 3, requests = 1;
  double seconds = 0;
  Flag counted{nullptr};  ///< --repeat
  std::string json_file, page_file;

  int Run() const {
    CheckTextOutputs({json_file, page_file}, {flags.request.model});
    if (seconds > 0 && counted.given()) throw Error("--repeat and --time contradict each other");
    Preparation spent;
    const CompileRequest request = WithInputShapes(flags.Parse(), inputs.texts, /*fills=*/true);
    const std::vector<std::string> peers = SplitLists(compare);
    for (const std::string& peer : peers) {
      if (peer != "onnxruntime" && peer != "openvino") {
        throw Error(StrCat("--compare: unknown engine '", peer, "'; known: onnxruntime, openvino",
                           DidYouMean(peer, {"onnxruntime", "openvino"})));
      }
      if (!IsOnnx(request.model))
        throw Error(StrCat(request.model, ": --compare needs the .onnx file, not the compiled one"));
    }
    const runtime::Model model = LoadOrCompile(request, &spent);
    const runtime::NamedTensors values = MakeInputs(model, inputs.texts, "random", inputs.Parse(request));
    const double first_run = TimeFirstRun(model, values);

    // In turns, so that what else the machine does hits all.
    constexpr int kRounds = 3;
    std::vector<Measured> engines(1 + peers.size());
    runtime::TemporaryDirectory folder;
    if (!peers.empty()) WriteTensors(folder.Path("inputs.npz"), {values.begin(), values.end()});
    for (int round = 0; round < kRounds; ++round) {
      const Budget budget{repeat / kRounds + (round < repeat % kRounds ? 1 : 0), seconds / kRounds};
      if (budget.runs == 0 && seconds <= 0) break;
      Append(&engines[0].times, TimeOwn(model, values, budget));
      for (size_t i = 0; i < peers.size(); ++i)
        Append(&engines[i + 1].times, TimePeer(peers[i], request.model, folder, budget, 1));
    }
    if (requests > 1) {
      const Budget budget{repeat, seconds};
      engines[0].rate = OwnRate(model, values, budget);
      for (size_t i = 0; i < peers.size(); ++i)
        engines[i + 1].rate = TimePeer(peers[i], request.model, folder, budget, requests).at(0);
    }
    Report(peers, engines, spent, first_run, WhatIsMeasured(model, values));
    if (!page_file.empty()) WriteModelPage(model, values, peers, engines);
    return 0;
  }

  void WriteModelPage(const runtime::Model& model, const runtime::NamedTensors& values,
                      const std::vector<std::string>& peers, const std::vector<Measured>& engines) const {
    constexpr int kProfiledRuns = 5;
    PageRequest page;
    page.output = page_file;
    page.title = std::filesystem::path(flags.request.model).filename().string();
    page.model = model;
    Measure(values, kProfiledRuns, threads, &page);
    for (size_t i = 0; i < engines.size(); ++i) {
      page.engines.emplace_back(i == 0 ? "treadle" : peers[i - 1], engines[i].times);
    }
    Compiler().write_page(page);
  }

  static void Append(std::vector<double>* all, const std::vector<double>& some) {
    all->insert(all->end(), some.begin(), some.end());
  }

  static runtime::ModelContext MakeContext(const runtime::Model& model, const runtime::NamedTensors& values,
                                           int threads) {
    runtime::ModelContext context = model.CreateContext();
    context.SetThreads(threads);
    for (const auto& [name, tensor] : values) context.SetInput(name, tensor);
    return context;
  }

  double TimeFirstRun(const runtime::Model& model, const runtime::NamedTensors& values) const {
    const auto start = Clock::now();
    MakeContext(model, values, threads).Run();
    return SecondsSince(start);
  }

  std::vector<double> TimeOwn(const runtime::Model& model, const runtime::NamedTensors& values,
                              const Budget& budget) const {
    runtime::ModelContext context = MakeContext(model, values, threads);
    TimeRuns(&context, {warm_up});
    return TimeRuns(&context, budget);
  }

  /// Threads of one of several requests: the flag's, or one.
  int RequestThreads() const { return threads == 0 ? 1 : threads; }

  /// Runs per second of `requests` contexts side by side.
  double OwnRate(const runtime::Model& model, const runtime::NamedTensors& values, const Budget& budget) const {
    std::vector<runtime::ModelContext> contexts;
    for (int i = 0; i < requests; ++i) {
      contexts.push_back(MakeContext(model, values, RequestThreads()));
      TimeRuns(&contexts.back(), {warm_up});
    }
    std::vector<size_t> counts(contexts.size());
    std::vector<std::exception_ptr> errors(contexts.size());
    std::vector<std::jthread> workers;  // joined, too, where not all can be started
    const auto begin = Clock::now();
    for (size_t i = 0; i < contexts.size(); ++i) {
      workers.emplace_back([&, i] {
        try {
          counts[i] = TimeRuns(&contexts[i], budget).size();
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
    }
    for (std::jthread& worker : workers) worker.join();
    const double spent = SecondsSince(begin);
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    return static_cast<double>(std::accumulate(counts.begin(), counts.end(), size_t{0})) / spent;
  }

  std::vector<double> TimePeer(const std::string& peer, const std::string& model,
                               const runtime::TemporaryDirectory& folder, const Budget& budget,
                               int side_by_side) const {
    const std::string file = folder.Path("times");
    const int own_threads = side_by_side > 1 ? RequestThreads() : threads;
    const int status = RunPython(kPeerScript,
                                 {peer, model, folder.Path("inputs.npz"), StrCat(own_threads), StrCat(budget.runs),
                                  fmt::format("{}", budget.seconds), StrCat(warm_up), StrCat(side_by_side)},
                                 file);
    if (status == 127) throw RuntimeError(StrCat("can't start ", PythonProgram(), "; set TREADLE_PYTHON"));
    if (status != 0)
      throw RuntimeError(StrCat(
          peer, " couldn't be measured\nhelp: the reason is printed above; set TREADLE_PYTHON to a Python that has ",
          peer));
    std::vector<double> times;
    for (const std::string& word : SplitWords(ReadWholeFile(file))) times.push_back(ParseDouble(word).value_or(0));
    if (times.empty()) throw RuntimeError(StrCat(peer, " measured nothing"));
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

  void Report(const std::vector<std::string>& peers, const std::vector<Measured>& engines, const Preparation& spent,
              double first_run, const std::string& what) const {
    const TimeSummary own = Summarise(engines[0].times);
    const double memory = PeakMemory();
    std::cout << what << "\n";
    if (spent.compile > 0) std::cout << fmt::format("compile {:.2f} s, ", spent.compile);
    std::cout << fmt::format("load {} ms, first run {} ms, peak memory {:.0f} MiB{}\n", Milliseconds(spent.load, 1, 1),
                             Milliseconds(first_run, 1, 1), memory / (1 << 20),
                             spent.compile > 0 ? " (compiling)" : "");
    Json report{{"model", flags.request.model},
                {"threads", threads},
                {"compile_s", spent.compile},
                {"load_ms", spent.load * 1e3},
                {"first_run_ms", first_run * 1e3},
                {"peak_memory_bytes", memory},
                {"measured", what}};
    for (size_t i = 0; i < engines.size(); ++i) {
      const std::string name = i == 0 ? "treadle" : peers[i - 1];
      const TimeSummary times = Summarise(engines[i].times);
      Json& entry = report["engines"][name];
      entry = ToJson(times);
      std::cout << fmt::format("{:12s} {}", name, ToText(times));
      if (engines[i].rate > 0) {
        entry["runs_per_s"] = engines[i].rate;
        std::cout << fmt::format("; {:.1f} runs/s of {} requests of {} thread{}", engines[i].rate, requests,
                                 RequestThreads(), RequestThreads() == 1 ? "" : "s");
      }
      if (i > 0) {
        entry["treadle_ratio"] = own.median / times.median;
        std::cout << fmt::format("; treadle takes {:.2f} x its time", own.median / times.median);
      }
      std::cout << "\n";
    }
    if (!json_file.empty()) WriteText(json_file, report.dump(1) + "\n");
  }
};

}  // namespace

void AddBench(CLI::App* app, Action* action) {
  auto verb = std::make_shared<BenchVerb>();
  Verb sub(app, "bench", "measure the run time of a model, optionally beside other engines", action,
           [verb] { return verb->Run(); });
  sub.Add("model", &verb->flags.request.model, "an .onnx file, or a compiled .so").Required();
  verb->inputs.AddTo(&sub, &verb->flags, "; inputs not given are random");
  verb->counted = sub.Add("--repeat", &verb->repeat, "number of measured runs (default: 20)").Positive();
  sub.Add("-t,--time", &verb->seconds, "measure for this many seconds instead of a fixed number of runs").AboveZero();
  sub.Add("--warm-up", &verb->warm_up, "number of warm-up runs (default: 3)").NonNegative();
  sub.Add("--requests", &verb->requests, "also measure the throughput of this many concurrent requests (default: 1)")
      .Between(1, kMaxRequests);
  sub.Add("--threads", &verb->threads, "number of threads (default: all)").Threads();
  sub.Add("--compare", &verb->compare, "also measure these Python packages: onnxruntime,openvino");
  sub.Add("--report", &verb->page_file, "write a report page with these times (see treadle report)");
  sub.Add("--json", &verb->json_file, "write the results to this file");
  verb->flags.AddTo(&sub);
}

}  // namespace treadle::cli
