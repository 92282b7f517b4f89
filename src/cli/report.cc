// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>

#include "cli/commands.h"
#include "cli/input_shapes.h"
#include "cli/layers.h"
#include "cli/measured_run.h"
#include "cli/session.h"
#include "runtime/file_io.h"

namespace treadle::cli {
namespace {

struct ReportVerb {
  CompileFlags flags;
  InputFlags inputs;
  std::string output;
  int repeat = 10, threads = 0;
  bool verify = false;

  int Run() const {
    const std::filesystem::path model_path = flags.request.model;
    const std::string path = output.empty() ? model_path.stem().string() + ".html" : output;
    CheckTextOutputs({path}, {flags.request.model});
    if (!path.ends_with(".html") && !path.ends_with(".htm")) {
      throw Error(StrCat("can't write '", path, "': a page is HTML\nhelp: such as -o page.html"));
    }
    const CompileRequest request = WithInputShapes(flags.Parse(), inputs.texts, /*fills=*/true);
    PageRequest page;
    if (IsSource(request.model)) {
      page.choices = ExplainAndLoad(request, &page.model);
    } else {
      page.model = LoadOrCompile(request);
    }
    const runtime::NamedTensors values = MakeInputs(page.model, inputs.texts, "random", inputs.Parse(request));
    Measure(values, repeat, threads, &page);
    if (verify) {
      for (const LayerComparison& layer : CompareLayers(request, {values.begin(), values.end()}, {}, threads)) {
        page.layers.push_back({layer.name, layer.difference.largest, layer.difference.snr});
      }
    }
    page.output = path;
    page.title = model_path.filename().string();
    page.facts.emplace_back("File", request.model);
    Compiler().write_page(page);
    std::cout << path << ": " << std::filesystem::file_size(path) / 1024 << " KiB; open it in a browser\n";
    return 0;
  }
};

}  // namespace

void AddReport(CLI::App* app, Action* action) {
  auto verb = std::make_shared<ReportVerb>();
  Verb sub(app, "report", "write an HTML page about a model: graph, times, roofline, memory, suggestions", action,
           [verb] { return verb->Run(); });
  sub.Add("model", &verb->flags.request.model, "an .onnx file, or a compiled .so").Required();
  sub.Add("-o,--output", &verb->output, "the page to write (default: the model's name with .html)");
  verb->inputs.AddTo(&sub, &verb->flags, "; inputs not given are random");
  sub.Add("--repeat", &verb->repeat, "number of measured runs (default: 10)").Positive();
  sub.Add("--threads", &verb->threads, "number of threads (default: all)").Threads();
  sub.Add("--verify", &verb->verify, "compare every intermediate value with ONNX Runtime");
  verb->flags.AddTo(&sub);
}

}  // namespace treadle::cli
