// SPDX-License-Identifier: Apache-2.0
// The verbs that compile, in terms of the driver.
#include "cli/compiler_api.h"

#include <algorithm>
#include <set>
#include <thread>

#include "driver/build/calibrate.h"
#include "driver/build/compile_relay.h"
#include "driver/evaluate/numeric_check.h"
#include "driver/lower/kernel_cache.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/model_info.h"
#include "frontend/onnx/proto_reader.h"
#include "report/model_page.h"
#include "report/page.h"
#include "report/peaks.h"
#include "targets/llvm/describe.h"
#include "treadle/base/error.h"
#include "treadle/driver/compile.h"
#include "treadle/driver/dim_range.h"
#include "treadle/external/codegen.h"
#include "treadle/ir/instrument.h"
#include "treadle/ir/target.h"
#include "treadle/relay/instrument.h"
#include "treadle/runtime/plugin.h"
#include "treadle/schedule/records.h"
#include "tune/records_writer.h"
#include "tune/session.h"

namespace treadle::cli {
namespace {

driver::CompileOptions ToOptions(const CompileRequest& request) {
  driver::CompileOptions options;
  options.target = request.target;
  options.opt_level = request.opt_level;
  options.required_pass = request.required_pass;
  options.disabled_pass = request.disabled_pass;
  options.config = request.pass_config;
  options.input_shapes = request.input_shapes;
  options.dims = request.dims;
  options.dim_ranges = request.dim_ranges;
  options.overridable = request.overridable;
  options.external = request.external;
  options.dump.stages = request.dump;
  options.dump.directory = request.dump_dir;
  options.dump.inputs = {request.model};
  options.threads = request.threads;
  options.max_model_memory = request.max_model_memory;
  options.use_cache = request.use_cache;
  return options;
}

/// The instruments that --check-passes names.
void AddChecks(const std::vector<std::string>& names, driver::CompileOptions* options) {
  for (const std::string& name : names) {
    if (name == "types") {
      options->instruments.push_back(relay::MakePassVerifier());
    } else if (name == "numbers") {
      options->instruments.push_back(driver::MakeNumericCheck());
    } else {
      throw Error(StrCat("unknown check of passes '", name, "'; there are: types, numbers"), ExitCode::kUsage);
    }
  }
}

std::string Compile(const CompileRequest& request) {
  driver::RegisterAll();
  for (const std::string& plugin : request.plugins) runtime::LoadPluginFile(plugin);
  driver::CompileOptions options = ToOptions(request);
  AddChecks(request.check_passes, &options);
  auto timing = treadle::transform::MakePassTiming();
  if (request.pass_timing) options.instruments.push_back(timing);
  if (request.on_pass) {
    options.instruments.push_back(treadle::transform::MakePassObserver(
        {}, /*before=*/true, [&](const IRModule&, const transform::PassInfo& info) { request.on_pass(info.name); }));
  }
  if (request.on_kernel) {
    options.progress = [&](const driver::Progress& p) { request.on_kernel(p.done, p.total, p.cached); };
  }
  const bool text = driver::IsRelayFile(request.model);
  driver::ExportLibrary(
      text ? driver::CompileRelayFile(request.model, options) : driver::CompileOnnxFile(request.model, options),
      request.output);
  return request.pass_timing ? timing->Render() : "";
}

std::vector<DeclaredInput> DeclaredInputs(const std::string& path) {
  const onnx::Model model = onnx::ReadModelFile(path);
  std::vector<DeclaredInput> inputs;
  for (const onnx::ValueInfo* declared : onnx::RequiredInputs(model)) {
    const onnx::ValueInfo& info = *declared;
    if (info.type.kind != onnx::TypeProto::Kind::kTensor) continue;
    DeclaredInput input;
    input.name = info.name;
    input.has_shape = info.type.shape.has_value();
    for (const onnx::Dimension& dim : info.type.shape.value_or(std::vector<onnx::Dimension>())) {
      input.shape.push_back(dim.value.value_or(-1));
      input.dim_names.push_back(dim.HasName() ? dim.symbol : "");
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::vector<ListRow> ListTargets() {
  driver::RegisterAll();
  std::vector<ListRow> rows;
  for (const auto& [name, text] : Target::ListKinds()) rows.push_back({name, text});
  for (const std::string& name : external::ListCodegens()) {
    rows.push_back({"--external " + name, external::DescribeCodegen(name)});
  }
  return rows;
}

/// The operators of ONNX's own domain as `opset` has them.
std::vector<ListRow> ListOpsOf(int opset) {
  std::vector<ListRow> rows;
  int newest = 0;
  for (const onnx::SupportedOp& op : onnx::SupportedOps()) {
    if (!op.domain.empty()) continue;
    int version = 0;
    for (const std::vector<int>* some : {&op.versions, &op.missing_versions}) {
      for (const int since : *some) {
        newest = std::max(newest, since);
        if (since <= opset) version = std::max(version, since);
      }
    }
    const bool imported = std::find(op.versions.begin(), op.versions.end(), version) != op.versions.end();
    if (version > 0) rows.push_back({op.name, StrCat("version ", version, imported ? "" : "; can't be imported")});
  }
  if (opset > newest)
    throw Error(StrCat("--opset: ", opset, " isn't known; the newest with an operator of its own is ", newest));
  return rows;
}

std::vector<ListRow> ListOps(int opset) {
  if (opset > 0) return ListOpsOf(opset);
  std::vector<ListRow> rows;
  for (const onnx::SupportedOp& op : onnx::SupportedOps()) {
    std::string text;
    for (int version : op.versions) text += StrCat(text.empty() ? "versions " : ", ", version);
    for (size_t i = 0; i < op.missing_versions.size(); ++i) {
      text += StrCat(i == 0 ? "; not " : ", ", op.missing_versions[i]);
    }
    rows.push_back({op.domain.empty() ? op.name : op.domain + "." + op.name, text});
  }
  return rows;
}

void CountOperators(const onnx::Graph& graph, std::map<std::string, int>* counts) {
  for (const onnx::Node& node : graph.nodes) {
    ++(*counts)[node.domain.empty() ? node.op_type : StrCat(node.domain, ".", node.op_type)];
    for (const onnx::Attribute& attribute : node.attributes) {
      if (attribute.g) CountOperators(*attribute.g, counts);
    }
  }
}

std::vector<std::string> CheckModel(const std::string& path, std::vector<ListRow>* operators) {
  driver::RegisterAll();
  const onnx::Model model = onnx::ReadModelFile(path);
  std::map<std::string, int> counts;
  CountOperators(model.graph, &counts);
  for (const auto& [name, count] : counts) operators->push_back({name, StrCat("x ", count)});
  try {
    onnx::FromOnnx(model);
  } catch (const UnsupportedOpError& e) {
    return e.nodes();
  }
  return {};
}

std::string CalibrateMachine() {
  driver::RegisterAll();
  return ToText(driver::Calibrate());
}

bool ForgetMachine() {
  driver::RegisterAll();
  return driver::ForgetCalibration();
}

std::vector<ListRow> DescribeMachine() {
  driver::RegisterAll();
  const Target native("llvm -mcpu=native");
  const TargetFeatures features = native->Features();
  std::string codegens;
  for (const std::string& name : external::ListCodegens()) codegens += StrCat(codegens.empty() ? "" : ", ", name);
  std::string problem;
  if (runtime::LoadRuntimeOfKind("opencl", &problem)) problem = "run time found";
  std::vector<ListRow> rows;
  for (const auto& [name, text] : targets::DescribeNative()) rows.push_back({name, text});
  const std::string calibration = driver::StoredCalibration();
  rows.push_back({"calibration", calibration.empty() ? "none (doctor --calibrate makes one)" : calibration});
  rows.insert(rows.end(),
              {{"external codegens", codegens},
               {"opencl", problem},
               {"architecture", features.arch},
               {"vector registers", StrCat(features.vector_registers, " of ", features.vector_bits, " bits")},
               {"fused multiply-add", features.fma ? "yes" : "no"},
               {"8-bit dot products", features.vnni ? "yes" : "no"},
               {"caches", StrCat(features.l1_bytes >> 10, " KiB, ", features.l2_bytes >> 10, " KiB, ",
                                 features.l3_bytes >> 20, " MiB")}});
  return rows;
}

driver::KernelCache& RequireCache() {
  driver::KernelCache* cache = driver::KernelCache::Default();
  if (cache == nullptr) throw Error("the cache is off: TREADLE_CACHE is 0, or there is no directory for it");
  return *cache;
}

CacheStats GetCacheStats() {
  driver::KernelCache* cache = driver::KernelCache::Default();
  if (cache == nullptr) return {};
  const driver::KernelCache::Stats stats = cache->GetStats();
  return {stats.directory, stats.kernels, stats.models, stats.bytes, stats.limit, stats.problem};
}

uint64_t ClearCache() { return RequireCache().Clear(); }

void SetCacheLimit(uint64_t bytes) {
  RequireCache().SetLimit(bytes);
  RequireCache().Trim();
}

TuneResult RunTune(const TuneRequest& request) {
  driver::RegisterAll();
  for (const std::string& plugin : request.compile.plugins) runtime::LoadPluginFile(plugin);
  tune::TuneOptions options;
  options.model = request.compile.model;
  options.compile = ToOptions(request.compile);
  options.output = request.output;
  options.seconds = request.seconds;
  options.seed = static_cast<uint64_t>(request.seed);
  options.resume = request.resume;
  options.dry_run = request.dry_run;
  options.graph = request.graph;
  options.trials = request.trials;
  options.progress = request.progress;
  options.measure.threads = request.threads;
  options.measure.build.jobs =
      request.jobs > 0 ? request.jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.measure.build.opt_level = request.compile.opt_level;
  const tune::TuneReport report = tune::Tune(options);
  return {report.ToText(), report.ToJson(), report.ToHtml()};
}

RecordsSummary CheckRecords(const std::string& text, bool best) {
  driver::RegisterAll();
  const schedule::RecordFile file = schedule::ReadRecords(text);
  RecordsSummary summary{file.lines, {}, file.faults, file.foreign()};
  std::vector<schedule::TuningRecord> records = file.records;
  if (best) {
    std::set<std::string> machines;
    for (const auto& record : file.records) machines.insert(record.machine);
    records.clear();
    for (const std::string& machine : machines) {
      for (const auto& record : schedule::BestRecords(file.records, machine)) records.push_back(record);
    }
  }
  for (const auto& r : records) {
    tune::Task task;
    task.problem = r.problem;
    summary.rows.push_back(
        {r.state, r.kernel, task.Name(), r.plan, r.machine, schedule::WhyNotRecord(r), r.ratio, r.hi});
  }
  return summary;
}

std::string PruneRecords(const std::string& text) {
  driver::RegisterAll();
  return tune::PruneRecords(schedule::ReadRecords(text));
}

void WriteModelPage(const PageRequest& request) {
  driver::RegisterAll();
  report::ModelRun run;
  run.title = request.title;
  run.model = request.model;
  run.timings = request.timings;
  run.seconds = request.seconds;
  run.threads = request.threads;
  run.choices = request.choices;
  for (const auto& layer : request.layers) run.layers.push_back({layer.name, layer.largest, layer.snr});
  run.facts = request.facts;
  run.engines = request.engines;
  const report::Peaks peaks = report::MeasurePeaks(request.model.manifest().target, request.threads);
  report::WritePage(request.output, report::ModelPage(run, peaks));
}

std::vector<double> LeastSeconds(const std::vector<runtime::OpTiming>& timings, const std::string& target,
                                 int threads) {
  driver::RegisterAll();
  const report::Peaks peaks = report::MeasurePeaks(target, threads);
  std::vector<double> seconds;
  seconds.reserve(timings.size());
  for (const runtime::OpTiming& timing : timings) seconds.push_back(peaks.LeastSeconds(timing));
  return seconds;
}

void CheckRange(const std::string& dimension, const std::string& range) { driver::DimRange::Parse(dimension, range); }

constexpr CompilerApi kApi{&Compile,         &DeclaredInputs,   &CheckRange,    &ListOps,       &ListTargets,
                           &DescribeMachine, &CalibrateMachine, &ForgetMachine, &GetCacheStats, &ClearCache,
                           &SetCacheLimit,   &CheckModel,       &RunTune,       &CheckRecords,  &PruneRecords,
                           &WriteModelPage,  &LeastSeconds};

}  // namespace
}  // namespace treadle::cli

extern "C" __attribute__((visibility("default"))) const treadle::cli::CompilerApi* treadle_cli_compiler_api() {
  return &treadle::cli::kApi;
}
