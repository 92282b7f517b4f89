// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/input_shapes.h"
#include "cli/json.h"
#include "cli/layers.h"
#include "cli/session.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

struct VerifyVerb {
  CompileFlags flags;
  InputFlags inputs;
  std::string reference = "onnxruntime";
  Tolerance tolerance;
  double atol = -1, snr = 0;
  int threads = 0;
  bool layers = false, json = false;

  int Run() {
    if (atol >= 0) tolerance.atol = atol;
    constexpr double kHealthy = 30;
    if (snr > 0) tolerance.snr = snr;
    if (snr == 0 && !flags.precision.empty() && flags.precision != "f32") tolerance.snr = kHealthy;
    const CompileRequest request = WithInputShapes(flags.Parse(), inputs.texts, /*fills=*/true);
    if (layers) return RunLayers(request);
    const runtime::Model model = LoadOrCompile(request);
    const runtime::NamedTensors values = MakeInputs(model, inputs.texts, "random", inputs.Parse());
    const NamedTensors actual = NameOutputs(model, model.Run(values, threads));
    const NamedTensors given(values.begin(), values.end());
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
                                   {"snr_db", difference.snr},
                                   {"explanation", difference.explanation}});
      if (json) continue;
      std::cout << name << ": " << (difference.agrees ? "agrees" : "DIFFERS: " + difference.explanation)
                << " (largest difference " << difference.largest << SnrText(difference) << ")\n";
    }
    report["agrees"] = agrees;
    if (json) std::cout << report.dump() << "\n";
    if (!agrees && !tolerance.snr && IsQuantised(flags.request.model)) {
      std::cerr << "help: engines round quantised models apart; --snr 30 compares by the ratio of signal to noise\n";
    }
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
    return tolerance.snr ? StrCat(", ", difference.snr, " dB") : "";
  }

  /// Where a precision was asked for: what each value lost up to there.
  void PrintLayers(const std::vector<LayerComparison>& all) const {
    if (!tolerance.snr || json) return;
    for (const auto& [name, difference] : all) std::cout << name << ": " << difference.snr << " dB\n";
  }

  /// Compares the result of every operator: a copy of the model that gives them all out is compiled and run.
  int RunLayers(const CompileRequest& request) const {
    if (!IsOnnx(request.model) || reference != "onnxruntime") {
      throw Error("--layers needs an .onnx model and --reference onnxruntime");
    }
    const runtime::Model plain = LoadOrCompile(request);
    const runtime::NamedTensors values = MakeInputs(plain, inputs.texts, "random", inputs.Parse());
    const std::vector<LayerComparison> all = CompareLayers(request, {values.begin(), values.end()}, tolerance, threads);
    PrintLayers(all);
    for (const auto& [name, difference] : all) {
      if (difference.agrees) continue;
      if (json) {
        std::cout << Json{{"agrees", false}, {"first_difference", name}, {"explanation", difference.explanation}}.dump()
                  << "\n";
      } else {
        std::cout << "the first operator that differs computes '" << name << "': " << difference.explanation << "\n";
      }
      return static_cast<int>(ExitCode::kCheckFailed);
    }
    if (json) {
      std::cout << Json{{"agrees", true}, {"layers", all.size()}}.dump() << "\n";
    } else {
      std::cout << "all " << all.size() << " intermediate values agree\n";
    }
    return 0;
  }
};

}  // namespace

void AddVerify(CLI::App* app, Action* action) {
  auto verb = std::make_shared<VerifyVerb>();
  Verb sub(app, "verify", "compare a model's outputs with a reference's", action, [verb] { return verb->Run(); });
  sub.Add("model", &verb->flags.request.model, "an .onnx file, or a compiled .so").Required();
  sub.Add("--reference", &verb->reference, "onnxruntime, interp, or a file of outputs (.npz) (onnxruntime)");
  verb->inputs.AddTo(&sub, "; others are random");
  sub.Add("--rtol", &verb->tolerance.rtol, "relative tolerance (1e-3)").NonNegative();
  sub.Add("--atol", &verb->atol, "absolute tolerance (1e-5 of the output's range)");
  sub.Add("--snr", &verb->snr, "instead: least signal-to-noise ratio in dB (30 where --precision is lower)")
      .NonNegative();
  sub.Add("--threads", &verb->threads, "threads (all)").Threads();
  sub.Add("--layers", &verb->layers, "compare every operator's result, name the first that differs");
  sub.Add("--json", &verb->json, "machine-readable output");
  verb->flags.AddTo(&sub);
}

}  // namespace treadle::cli
