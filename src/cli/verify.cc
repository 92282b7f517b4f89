// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <optional>

#include "cli/color.h"
#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/float64_errors.h"
#include "cli/input_shapes.h"
#include "cli/layers.h"
#include "cli/session.h"
#include "cli/single_node.h"
#include "runtime/file_io.h"
#include "treadle/base/error.h"
#include "treadle/base/json.h"
#include "treadle/base/suggest.h"

namespace treadle::cli {
namespace {

/// A signal-to-noise ratio; infinite where there is no difference.
std::string Decibels(double snr) { return std::isinf(snr) && snr > 0 ? "identical" : StrCat(snr, " dB"); }

struct VerifyVerb {
  CompileFlags flags;
  InputFlags inputs;
  std::string reference = "onnxruntime";
  Tolerance tolerance;
  double atol = -1, snr = 0;
  int threads = 0;
  bool layers = false, json = false, float64 = false;
  std::string reduce;

  int Run() {
    if (!reduce.empty()) runtime::CheckOutputFolder(reduce);
    if (!reduce.empty()) layers = true;
    if (atol >= 0) tolerance.atol = atol;
    constexpr double kHealthy = 30;
    if (snr > 0) tolerance.snr = snr;
    if (snr == 0 && !flags.precision.empty() && flags.precision != "f32") tolerance.snr = kHealthy;
    const CompileRequest request = WithInputShapes(flags.Parse(), inputs.texts, /*fills=*/true);
    if (layers) return RunLayers(request);
    const runtime::Model model = LoadOrCompile(request);
    const runtime::NamedTensors values = MakeInputs(model, inputs.texts, "random", inputs.Parse(request));
    const NamedTensors actual = NameOutputs(model, model.Run(values, threads));
    const NamedTensors given(values.begin(), values.end());
    if (float64) return ReportErrors(Float64Errors(request, given, actual));
    return Report(CompareOutputs(actual, Expected(request, given), tolerance));
  }

  NamedTensors Expected(const CompileRequest& request, const NamedTensors& given) const {
    if (reference == "onnxruntime") {
      if (!IsOnnx(request.model))
        throw Error(StrCat(request.model, ": onnxruntime needs the .onnx file, not the compiled one"));
      return RunOnnxRuntime(request.model, given);
    }
    if (reference == "interp") {
      if (!IsOnnx(request.model))
        throw Error(StrCat(request.model, ": interp needs the .onnx file, not the compiled one"));
      CompileRequest plain = request;  // nothing optimised, interpreted
      plain.target = "stackvm";
      plain.opt_level = 0;
      const runtime::Model model = LoadOrCompile(plain);
      return NameOutputs(model, model.Run({given.begin(), given.end()}));
    }
    const std::string extension = std::filesystem::path(reference).extension();
    const bool readable = extension == ".npz" || extension == ".npy" || extension == ".pb";
    if (!readable && !std::filesystem::exists(reference)) {
      throw Error(StrCat("there is no reference '", reference, "'; expected onnxruntime, interp, or a file of outputs",
                         DidYouMean(reference, {"onnxruntime", "interp"})));
    }
    if (!readable) {
      throw Error(StrCat("a file of outputs is .npz, .npy or .pb, not '", reference, "'"));
    }
    return ReadTensors(reference);
  }

  int Report(const std::vector<LayerComparison>& comparisons) const {
    bool agrees = true;
    Json report{{"outputs", Json::array()}};
    for (const auto& [name, difference] : comparisons) {
      agrees = agrees && difference.agrees;
      report["outputs"].push_back({{"name", name},
                                   {"agrees", difference.agrees},
                                   {"largest_difference", difference.largest},
                                   {"snr_db", std::isinf(difference.snr) ? Json() : Json(difference.snr)},
                                   {"explanation", difference.explanation}});
      if (json) continue;
      std::cout << name << ": "
                << (difference.agrees ? Painted("agrees", Color::kGreen, STDOUT_FILENO)
                                      : Painted("DIFFERS", Color::kRed, STDOUT_FILENO) + ": " + difference.explanation)
                << " (largest difference " << difference.largest << SnrText(difference) << ")\n";
    }
    report["agrees"] = agrees;
    if (json) std::cout << report.dump() << "\n";
    if (!agrees && !tolerance.snr && IsQuantised(flags.request.model)) {
      std::cerr << PaintedMessage(
          "help: engines round quantised models differently; --snr 30 compares signal-to-noise ratios\n");
    }
    return static_cast<int>(agrees ? ExitCode::kOk : ExitCode::kCheckFailed);
  }

  /// Errors against float64; out of tolerance where Treadle's is above --rtol.
  int ReportErrors(const std::vector<Float64Error>& errors) const {
    Json report{{"outputs", Json::array()}};
    bool agrees = true;
    for (const Float64Error& error : errors) {
      agrees = agrees && error.treadle <= tolerance.rtol;
      Json row{{"name", error.output}, {"treadle", error.treadle}};
      if (error.onnxruntime) row["onnxruntime"] = *error.onnxruntime;
      report["outputs"].push_back(row);
      if (json) continue;
      std::cout << error.output << ": error of the range against float64: treadle " << error.treadle;
      if (error.onnxruntime) std::cout << ", onnxruntime " << *error.onnxruntime;
      std::cout << "\n";
    }
    report["agrees"] = agrees;
    if (json) std::cout << report.dump() << "\n";
    return static_cast<int>(agrees ? ExitCode::kOk : ExitCode::kCheckFailed);
  }

  static bool IsQuantised(const std::string& model) {
    if (!IsOnnx(model)) return false;
    std::vector<ListRow> operators;
    Compiler().check_model(model, &operators);
    return std::any_of(operators.begin(), operators.end(), [](const ListRow& row) {
      return row.name.find("QLinear") != std::string::npos || row.name.find("Quantize") != std::string::npos;
    });
  }

  std::string SnrText(const Difference& difference) const {
    return tolerance.snr ? ", " + Decibels(difference.snr) : "";
  }

  /// Where a precision was asked for: what each value lost up to there.
  void PrintLayers(const std::vector<LayerComparison>& all) const {
    if (!tolerance.snr || json) return;
    for (const auto& [name, difference] : all) std::cout << name << ": " << Decibels(difference.snr) << "\n";
  }

  /// Compares the outputs, and the result of every operator. What is out of tolerance is computed again by itself, from
  /// the reference's operands: this distinguishes wrong operators from accumulated rounding errors.
  int RunLayers(const CompileRequest& request) const {
    if (!IsOnnx(request.model) || reference != "onnxruntime") {
      throw Error("--layers needs an .onnx model and --reference onnxruntime");
    }
    const runtime::Model model = LoadOrCompile(request);
    const runtime::NamedTensors values = MakeInputs(model, inputs.texts, "random", inputs.Parse(request));
    const NamedTensors given(values.begin(), values.end());
    const std::vector<LayerComparison> outputs =
        CompareOutputs(NameOutputs(model, model.Run(values, threads)), RunOnnxRuntime(request.model, given), tolerance);
    const int status = json ? OutputStatus(outputs) : Report(outputs);
    const std::vector<LayerComparison> all = CompareLayers(request, given, tolerance, threads);
    PrintLayers(all);
    std::vector<const LayerComparison*> suspects;
    for (const LayerComparison& layer : all) {
      if (!layer.difference.agrees) suspects.push_back(&layer);
    }
    const std::optional<Culprit> culprit = FindCulprit(request, given, suspects);
    PrintVerdict(all.size(), suspects.size(), culprit, status == 0);
    return culprit ? static_cast<int>(ExitCode::kCheckFailed) : status;
  }

  struct Culprit {
    std::string value, node, explanation;
  };

  /// The first of the operators behind `suspects` (the first few) that is out of tolerance by itself.
  std::optional<Culprit> FindCulprit(const CompileRequest& request, const NamedTensors& given,
                                     const std::vector<const LayerComparison*>& suspects) const {
    constexpr size_t kMostTried = 12;
    const runtime::TemporaryDirectory own;
    if (!reduce.empty()) std::filesystem::create_directories(reduce);
    const std::string folder = reduce.empty() ? own.Path("") : reduce;
    for (size_t i = 0; i < std::min(kMostTried, suspects.size()); ++i) {
      const SingleNode node = ExtractNode(request.model, given, suspects[i]->name, folder);
      CompileRequest alone = request;
      alone.model = node.model;
      alone.input_shapes.clear();
      alone.dims.clear();
      const runtime::Model model = LoadOrCompile(alone);
      const NamedTensors operands = ReadTensors(node.inputs);
      const std::vector<LayerComparison> result =
          CompareOutputs(NameOutputs(model, model.Run({operands.begin(), operands.end()}, threads)),
                         ReadTensors(node.expected), tolerance);
      if (!result[0].difference.agrees) return Culprit{suspects[i]->name, node.text, result[0].difference.explanation};
    }
    if (!reduce.empty()) {
      for (const char* file : {"/node.onnx", "/inputs.npz", "/expected.npz"}) std::filesystem::remove(reduce + file);
    }
    return std::nullopt;
  }

  static int OutputStatus(const std::vector<LayerComparison>& outputs) {
    const bool agrees =
        std::all_of(outputs.begin(), outputs.end(), [](const auto& output) { return output.difference.agrees; });
    return static_cast<int>(agrees ? ExitCode::kOk : ExitCode::kCheckFailed);
  }

  void PrintVerdict(size_t all, size_t suspects, const std::optional<Culprit>& culprit, bool agrees) const {
    if (json) {
      Json report{{"agrees", agrees && !culprit}, {"layers", all}, {"out_of_tolerance", suspects}};
      if (culprit) {
        report["first_difference"] = culprit->value;
        report["node"] = culprit->node;
        report["explanation"] = culprit->explanation;
      }
      std::cout << report.dump() << "\n";
    } else if (culprit) {
      std::cout << "the first operator that differs by itself is " << culprit->node << ", which computes '"
                << culprit->value << "': " << culprit->explanation << "\n";
      if (!reduce.empty()) std::cout << reduce << ": node.onnx, inputs.npz, expected.npz\n";
    } else if (suspects == 0) {
      std::cout << "all " << all << " intermediate values agree\n";
    } else {
      std::cout << suspects << " of " << all
                << " intermediate values are out of tolerance, but each operator agrees by itself: rounding errors "
                   "accumulate\n";
    }
  }
};

}  // namespace

void AddVerify(CLI::App* app, Action* action) {
  auto verb = std::make_shared<VerifyVerb>();
  Verb sub(app, "verify", "compare a model's outputs with ONNX Runtime or another reference", action,
           [verb] { return verb->Run(); });
  sub.Add("model", &verb->flags.request.model, "an .onnx file, or a compiled .so").Required();
  sub.Add("--reference", &verb->reference, "onnxruntime, interp, or an .npz file of outputs (default: onnxruntime)");
  verb->inputs.AddTo(&sub, &verb->flags, "; inputs not given are random");
  sub.Add("--rtol", &verb->tolerance.rtol, "relative tolerance (default: 1e-3)").NonNegative();
  sub.Add("--atol", &verb->atol, "absolute tolerance (default: 1e-5 of the output's range)").NonNegative();
  sub.Add("--snr", &verb->snr,
          "compare by signal-to-noise ratio instead: the minimum in dB (default with reduced --precision: 30)")
      .NonNegative();
  sub.Add("--threads", &verb->threads, "number of threads (default: all)").Threads();
  sub.Add("--layers", &verb->layers,
          "compare the result of every operator, and name the first that differs when run on the same operands");
  sub.Add("--reduce", &verb->reduce,
          "write that operator and its operands to this folder, as a model; implies --layers");
  sub.Add("--float64", &verb->float64, "print the errors of Treadle and ONNX Runtime relative to the model in float64");
  sub.Add("--json", &verb->json, "machine-readable output");
  verb->flags.AddTo(&sub);
}

}  // namespace treadle::cli
