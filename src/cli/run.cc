// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <numeric>
#include <optional>
#include <sstream>

#include "cli/color.h"
#include "cli/commands.h"
#include "cli/input_shapes.h"
#include "cli/profile.h"
#include "cli/session.h"
#include "cli/timing.h"
#include "runtime/file_io.h"
#include "treadle/base/error.h"
#include "treadle/base/json.h"
#include "treadle/runtime/run_limits.h"
#include "treadle/runtime/scalar.h"

namespace treadle::cli {
namespace {

struct RunVerb {
  CompileFlags flags;
  InputFlags inputs;
  std::string output, profile, dump_tensors, labels, device = "cpu";
  int repeat = 1, threads = 0, top_k = 0;
  double timeout = 0;
  bool json = false, check_nan = false;

  int Run() const {
    if (const runtime::Device chosen = runtime::ParseDevice(device);
        chosen.device_type != kDLCPU || chosen.device_id != 0) {
      throw TargetError(StrCat("device ", device, " isn't available; this build runs on: cpu"));
    }
    CheckOutputs();
    const CompileRequest request = WithInputShapes(flags.Parse(), inputs.texts, /*fills=*/false);
    const runtime::Model model = LoadOrCompile(request);
    if (!output.empty()) CheckAreTensors(model);
    const runtime::NamedTensors values = MakeInputs(model, inputs.texts, "", inputs.Parse(request));
    runtime::ModelContext context = model.CreateContext();
    context.SetThreads(threads);
    for (const auto& [name, tensor] : values) context.SetInput(name, tensor);
    if (check_nan) context.RunProfiled(/*stop_at_nan=*/true);
    if (!dump_tensors.empty()) DumpTensors(&context);
    std::vector<double> times;
    for (int i = 0; i < std::max(1, repeat); ++i) {
      const auto start = std::chrono::steady_clock::now();
      std::optional<runtime::RunLimitScope> limits;
      if (timeout > 0) limits.emplace(runtime::RunLimits{.cancel = std::nullopt, .timeout_s = timeout});
      context.Run();
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::vector<NDArray> results;
    for (size_t i = 0; i < model.outputs().size(); ++i) results.push_back(context.GetOutput(i));
    const NamedTensors named = NameOutputs(model, results);
    if (!output.empty()) WriteTensors(output, named);
    Print(model, named, times);
    if (!profile.empty()) Profile(&context);
    return 0;
  }

  /// Before anything is computed. None may be the model or an input.
  void CheckOutputs() const {
    std::vector<std::string> files{flags.request.model};
    for (const std::string& input : inputs.texts) files.push_back(input.substr(input.find('=') + 1));
    for (const std::string& path : {output, dump_tensors}) {
      if (!path.empty()) runtime::CheckOutputPath(path, runtime::FileKind::kAny, files);
    }
    if (!output.empty() && output == dump_tensors) throw Error(StrCat("two outputs go to '", output, "'"));
    CheckTextOutputs({profile}, files);
    if (!labels.empty() && top_k == 0) throw Error("--labels has no effect without --top-k");
    if (!labels.empty() && ReadWholeFile(labels).find('\0') != std::string::npos) {
      throw Error(StrCat("--labels: ", labels, " isn't a text; expected a label on each line"));
    }
  }

  /// Strings, sequences and maps are passed as bytes in an internal format.
  static void CheckAreTensors(const runtime::Model& model) {
    for (const runtime::TensorInfo& info : model.outputs()) {
      if (info.value_type.empty()) continue;
      throw DTypeError(StrCat("output '", info.name, "' is a ", info.value_type,
                              ", which files of tensors can't hold; run the model from Python"));
    }
  }

  void Print(const runtime::Model& model, const NamedTensors& outputs, const std::vector<double>& times) const {
    const auto type_of = [&](const std::pair<std::string, NDArray>& output) -> const std::string& {
      return model.outputs()[static_cast<size_t>(&output - outputs.data())].value_type;
    };
    if (json) {
      Json report{{"outputs", Json::array()}, {"times", ToJson(Summarise(times))}};
      for (const auto& output : outputs) {
        const auto& [name, tensor] = output;
        if (const std::string& type = type_of(output); !type.empty()) {
          report["outputs"].push_back({{"name", name}, {"type", type}});
          continue;
        }
        report["outputs"].push_back({{"name", name}, {"shape", tensor.shape()}, {"dtype", tensor.dtype().str()}});
      }
      std::cout << report.dump() << "\n";
      return;
    }
    const std::vector<std::string> names =
        labels.empty() ? std::vector<std::string>() : SplitLines(ReadWholeFile(labels));
    for (const auto& output : outputs) {
      const auto& [name, tensor] = output;
      if (!names.empty() && type_of(output).empty()) NoteLabels(name, tensor, names.size());
      if (const std::string& type = type_of(output); !type.empty()) {
        std::cout << name << ": " << type << " of " << tensor.size()
                  << " bytes; run the model from Python to read it\n";
        continue;
      }
      std::cout << name << ": " << Describe(tensor) << "\n";
      if (top_k > 0) std::cout << TopText(tensor, names);
    }
    std::cout << ToText(Summarise(times)) << "\n";
  }

  /// Names of another set of classes would be wrong ones.
  void NoteLabels(const std::string& output, const NDArray& tensor, size_t count) const {
    if (tensor.shape().empty() || tensor.shape().back() == static_cast<int64_t>(count)) return;
    std::cerr << PaintedMessage(StrCat("note: ", labels, " has ", count, " lines, output '", output, "' ",
                                       tensor.shape().back(), " classes: the names may be those of another model\n"));
  }

  static std::vector<std::string> SplitLines(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
      lines.push_back(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
    return lines;
  }

  /// The largest elements along the last axis, of each row.
  std::string TopText(const NDArray& tensor, const std::vector<std::string>& names) const {
    if (tensor.shape().empty() || tensor.size() == 0 || tensor.shape().back() == 0) return "";
    const std::vector<double> values = runtime::ToDoubles(tensor);
    const auto width = static_cast<size_t>(tensor.shape().back());
    const size_t rows = values.size() / width, count = std::min(width, static_cast<size_t>(top_k));
    std::string text;
    std::vector<size_t> order(width);
    for (size_t row = 0; row < rows; ++row) {
      const double* begin = values.data() + row * width;
      std::iota(order.begin(), order.end(), size_t{0});
      std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                        [&](size_t a, size_t b) { return begin[a] != begin[b] ? begin[a] > begin[b] : a < b; });
      if (rows > 1) text += StrCat("  row ", row, ":\n");
      for (size_t i = 0; i < count; ++i) {
        const std::string name = order[i] < names.size() ? "  " + names[order[i]] : "";
        text += fmt::format("  {:>12.6g}  {:>6}{}\n", begin[order[i]], order[i], name);
      }
    }
    return text;
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
    const std::vector<runtime::OpTiming> timings = context->RunProfiled();
    WriteText(profile, runtime::ChromeTrace(timings));
    if (json) return;
    const std::vector<ProfileRow> compilers = MakeProfile(timings, ProfileBy::kCompiler);
    if (compilers.size() > 1 || timings.empty() || !timings[0].compiler.empty()) std::cout << ToText(compilers, 0);
    constexpr size_t kShown = 10;
    std::cout << "calls by time (trace: " << profile << "):\n"
              << ToText(MakeProfile(timings, ProfileBy::kCall), kShown);
  }
};

}  // namespace

void AddRun(CLI::App* app, Action* action) {
  auto verb = std::make_shared<RunVerb>();
  Verb sub(app, "run", "run a model", action, [verb] { return verb->Run(); });
  sub.Add("model", &verb->flags.request.model, "a compiled .so, or an .onnx file").Required();
  verb->inputs.AddTo(&sub, &verb->flags);
  sub.Add("-o,--output", &verb->output, "file for the outputs: .npz (one array per output name) or .npy");
  sub.Add("--repeat", &verb->repeat, "number of runs (default: 1)").Positive();
  sub.Add("--threads", &verb->threads, "number of threads (default: all)").Threads();
  sub.Add("--timeout", &verb->timeout, "time limit of a run in seconds (default: no limit)").AboveZero();
  sub.Add("--profile", &verb->profile, "write a trace for ui.perfetto.dev");
  sub.Add("--top-k", &verb->top_k, "print the largest elements of each row of the outputs").Positive();
  sub.Add("--labels", &verb->labels, "with --top-k: a text file with one label per line");
  sub.Add("--dump-tensors", &verb->dump_tensors, "write the results of all kernel calls to an .npz file");
  sub.Add("--check-nan", &verb->check_nan, "first run call by call, and stop at the first NaN");
  sub.Add("--device", &verb->device, "the device to run on (default: cpu)");
  sub.Add("--json", &verb->json, "machine-readable output");
  verb->flags.AddTo(&sub);
}

}  // namespace treadle::cli
