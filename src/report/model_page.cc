// SPDX-License-Identifier: Apache-2.0
#include "report/model_page.h"

#include <fmt/format.h>

#include "report/sections.h"
#include "treadle/runtime/manifest.h"

namespace treadle::report {
namespace {

std::string Tensors(const std::vector<runtime::TensorInfo>& infos) {
  std::string text;
  for (const runtime::TensorInfo& info : infos) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", info.name,
                        info.value_type.empty() ? info.str() : info.value_type);
  }
  return text;
}

Json FactsSection(const ModelRun& run, const std::vector<Operation>& operations, const Peaks& peaks) {
  const runtime::Manifest& manifest = run.model.manifest();
  const runtime::MemoryReport memory = run.model.Memory();
  double macs = 0;
  for (const Operation& op : operations) macs += op.macs;
  Json rows = Json::array();
  auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) rows.push_back({name, value});
  };
  if (run.seconds > 0) add("A run takes", TimeText(run.seconds) + " (median)");
  if (run.seconds > 0 && macs > 0) {
    const double rate = 2 * macs / run.seconds;
    add("Rate",
        fmt::format("{:.1f} GFLOP/s{}", rate / 1e9,
                    peaks.flops > 0 ? fmt::format(", {:.0f} % of the float32 peak", 100 * rate / peaks.flops) : ""));
  }
  add("Threads", run.threads == 0 ? "all" : std::to_string(run.threads));
  add("Inputs", Tensors(run.model.inputs()));
  add("Outputs", Tensors(run.model.outputs()));
  add("Calls of kernels", std::to_string(operations.size()));
  add("Weights", BytesText(static_cast<double>(memory.params)));
  // Programs of the virtual machine take them from a pool when they run.
  if (manifest.executor != "vm") add("Activations", BytesText(static_cast<double>(memory.activations)));
  add("Target", manifest.target);
  add("Executor", manifest.executor == "vm" ? "virtual machine (dynamic shapes or control flow)" : manifest.executor);
  add("Compiled by", "Treadle " + manifest.treadle_version);
  for (const auto& [name, value] : run.facts) add(name, value);
  return {{"kind", "facts"}, {"title", "Overview"}, {"rows", rows}};
}

}  // namespace

double TotalSeconds(const std::vector<Operation>& operations) {
  double total = 0;
  for (const Operation& op : operations) total += op.seconds;
  return total;
}

std::string TimeText(double seconds) {
  return seconds >= 1e-5 ? fmt::format("{:.3f} ms", seconds * 1e3) : fmt::format("{:.3g} ms", seconds * 1e3);
}

std::string BytesText(double bytes) {
  if (bytes >= 1 << 30) return fmt::format("{:.2f} GiB", bytes / (1 << 30));
  if (bytes >= 1 << 20) return fmt::format("{:.1f} MiB", bytes / (1 << 20));
  return fmt::format("{:.1f} KiB", bytes / 1024);
}

Json CallsSection(const std::vector<Operation>& operations) {
  if (operations.empty()) return nullptr;
  const double total = TotalSeconds(operations);
  Json rows = Json::array();
  for (size_t i = 0; i < operations.size(); ++i) {
    const Operation& op = operations[i];
    const bool timed = op.seconds > 0;
    rows.push_back({i + 1, op.seconds * 1e3, total > 0 ? 100 * op.seconds / total : 0,
                    op.macs > 0 && timed ? Json(2e-9 * op.macs / op.seconds) : Json(""),
                    op.attainable > 0 && timed ? Json(100 * op.attainable / op.seconds) : Json(""), op.origin,
                    op.compiler.empty() ? op.choice : op.compiler, op.kernel, op.shapes});
  }
  return {
      {"kind", "table"},
      {"title", "Calls"},
      {"note", "In the order of the run; a click on a head sorts."},
      {"columns", {"#", "ms", "%", "GFLOP/s", "% of roofline", "nodes of the model", "algorithm", "kernel", "shapes"}},
      {"rows", rows}};
}

std::string ModelPage(const ModelRun& run, const Peaks& peaks) {
  const std::vector<Operation> operations = Operations(run, peaks);
  Json page{{"title", run.title},
            {"subtitle", "Measurements and decisions for one compiled model."},
            {"sections", Json::array({FactsSection(run, operations, peaks)})}};
  const Json sections[] = {AdviceSection(run, operations, peaks),
                           EnginesSection(run),
                           GraphSection(run, operations),
                           TimeSection(operations),
                           RooflineSection(operations, peaks),
                           MemorySection(run),
                           PrecisionSection(run),
                           CallsSection(operations)};
  for (const Json& section : sections) {
    if (!section.is_null()) page["sections"].push_back(section);
  }
  return page.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace treadle::report
