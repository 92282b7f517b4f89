// SPDX-License-Identifier: Apache-2.0
// Charts, as Vega-Lite specifications.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/sections.h"

namespace treadle::report {
namespace {

constexpr size_t kBars = 25;  ///< calls that the chart of times shows
constexpr size_t kLabelLength = 44;

std::string Short(const std::string& text) {
  return text.size() <= kLabelLength ? text : text.substr(0, kLabelLength - 3) + "...";
}

/// What a call is coloured by.
std::string KindOf(const Operation& op) {
  if (!op.compiler.empty()) return op.compiler;
  if (!op.choice.empty()) return op.choice;
  if (!op.counted) return "kernels with dynamic shapes";
  return op.macs > 0 ? "products" : "element-wise and data movement";
}

std::vector<const Operation*> BySeconds(const std::vector<Operation>& operations) {
  std::vector<const Operation*> sorted;
  for (const Operation& op : operations) sorted.push_back(&op);
  std::sort(sorted.begin(), sorted.end(),
            [](auto a, auto b) { return a->seconds != b->seconds ? a->seconds > b->seconds : a < b; });
  return sorted;
}

/// Which points of a chart with two logarithmic axes get a label, so that those don't cover each other.
class LabelPlaces {
 public:
  bool Take(double x, double y) {
    constexpr double kWide = 0.7, kHigh = 0.1;  // decades that a label takes
    for (const auto& [other_x, other_y] : taken_) {
      if (std::abs(std::log10(x / other_x)) < kWide && std::abs(std::log10(y / other_y)) < kHigh) return false;
    }
    taken_.emplace_back(x, y);
    return true;
  }

 private:
  std::vector<std::pair<double, double>> taken_;
};

Json Values(Json rows) { return {{"values", std::move(rows)}}; }

Json Field(const char* name, const char* type, const char* title) {
  return {{"field", name}, {"type", type}, {"title", title}};
}

}  // namespace

Json TimeSection(const std::vector<Operation>& operations) {
  if (operations.empty()) return nullptr;
  const double total = TotalSeconds(operations);
  Json rows = Json::array();
  std::vector<const Operation*> sorted = BySeconds(operations);
  double shown = 0;
  for (size_t i = 0; i < std::min(kBars, sorted.size()); ++i) {
    const Operation& op = *sorted[i];
    shown += op.seconds;
    rows.push_back({{"rank", i},
                    {"call", fmt::format("{}. {}", i + 1, Short(op.label()))},
                    {"ms", op.seconds * 1e3},
                    {"bound", op.attainable * 1e3},
                    {"percent", total > 0 ? 100 * op.seconds / total : 0},
                    {"kind", KindOf(op)},
                    {"shapes", op.shapes}});
  }
  Json y = Field("call", "nominal", "");
  y["sort"] = nullptr;
  y["title"] = nullptr;
  y["axis"] = {{"labelLimit", 320}};
  Json color = Field("kind", "nominal", "computed by");
  color["legend"] = {{"orient", "top"}, {"columns", 3}, {"labelLimit", 260}};
  const Json tooltip = {Field("call", "nominal", "call"),
                        Field("ms", "quantitative", "ms"),
                        Field("bound", "quantitative", "roofline, ms"),
                        Field("percent", "quantitative", "% of all"),
                        Field("kind", "nominal", "computed by"),
                        Field("shapes", "nominal", "shapes")};
  const Json bars = {
      {"mark", "bar"},
      {"encoding", {{"x", Field("ms", "quantitative", "ms")}, {"y", y}, {"color", color}, {"tooltip", tooltip}}}};
  const Json ticks = {{"mark", {{"type", "tick"}, {"color", "#d62728"}, {"thickness", 2}}},
                      {"encoding", {{"x", Field("bound", "quantitative", "ms")}, {"y", y}}}};
  return {
      {"kind", "chart"},
      {"title", "Time per operator"},
      {"note", fmt::format("The {} most expensive of {} calls, {:.0f} % of the time. The red mark is the least time "
                           "that this machine's multiply-adds and memory allow.",
                           rows.size(), operations.size(), total > 0 ? 100 * shown / total : 0)},
      {"spec", {{"data", Values(rows)}, {"height", {{"step", 20}}}, {"layer", {bars, ticks}}}}};
}

Json RooflineSection(const std::vector<Operation>& operations, const Peaks& peaks) {
  if (!peaks.known()) return nullptr;
  Json points = Json::array();
  double least = peaks.flops / peaks.levels.back().speed, most = least;
  LabelPlaces places;
  for (const Operation* op : BySeconds(operations)) {
    if (op->macs <= 0 || op->bytes <= 0 || op->seconds <= 0) continue;
    const double intensity = 2 * op->macs / op->bytes;
    least = std::min(least, intensity);
    most = std::max(most, intensity);
    const double gflops = 2e-9 * op->macs / op->seconds;
    points.push_back({{"call", op->label()},
                      {"label", places.Take(intensity, gflops) ? Short(op->label()) : ""},
                      {"intensity", intensity},
                      {"gflops", gflops},
                      {"ms", op->seconds * 1e3},
                      {"of_bound", 100 * op->attainable / op->seconds},
                      {"kind", KindOf(*op)}});
  }
  if (points.empty()) return nullptr;
  Json roof = Json::array();
  std::string speeds;
  for (const MemoryLevel& level : peaks.levels) {
    for (double x : std::set<double>{least / 2, std::clamp(peaks.flops / level.speed, least / 2, most * 2), most * 2}) {
      roof.push_back(
          {{"intensity", x}, {"gflops", 1e-9 * std::min(peaks.flops, x * level.speed)}, {"level", level.name}});
    }
    speeds += fmt::format("{}{:.0f} GB/s from {}", speeds.empty() ? "" : ", ", level.speed / 1e9, level.name);
  }
  Json x = Field("intensity", "quantitative", "operations per byte of operands and results");
  Json y = Field("gflops", "quantitative", "GFLOP/s");
  for (Json* axis : {&x, &y}) {
    (*axis)["scale"] = {{"type", "log"}, {"nice", false}, {"padding", 12}};
    (*axis)["axis"] = {{"format", "~g"}};
  }
  Json levels = Field("level", "nominal", "read from");
  levels["sort"] = nullptr;
  levels["legend"] = {{"orient", "top"}};
  Json size = Field("ms", "quantitative", "ms");
  size["legend"] = nullptr;
  Json color = Field("kind", "nominal", "computed by");
  color["legend"] = {{"orient", "top"}, {"columns", 3}, {"labelLimit", 260}};
  const Json tooltip = {Field("call", "nominal", "call"), Field("gflops", "quantitative", "GFLOP/s"),
                        Field("of_bound", "quantitative", "% of the roofline"), Field("ms", "quantitative", "ms")};
  const Json line = {{"data", Values(roof)},
                     {"mark", {{"type", "line"}, {"color", "#d62728"}, {"strokeWidth", 1.5}}},
                     {"encoding", {{"x", x}, {"y", y}, {"strokeDash", levels}}}};
  const Json dots = {{"mark", {{"type", "point"}, {"filled", true}, {"opacity", 0.8}}},
                     {"encoding", {{"x", x}, {"y", y}, {"size", size}, {"color", color}, {"tooltip", tooltip}}}};
  const Json labels = {
      {"mark", {{"type", "text"}, {"align", "right"}, {"dx", -8}, {"dy", -7}, {"fontSize", 10}, {"limit", 220}}},
      {"encoding", {{"x", x}, {"y", y}, {"text", {{"field", "label"}, {"type", "nominal"}}}}}};
  return {{"kind", "chart"},
          {"title", "Roofline"},
          {"note",
           fmt::format("Convolutions and matrix products. The lines: {:.0f} GFLOP/s of float32; {}, measured here. "
                       "The data of a call is assumed to be in the smallest of these levels that can hold it. Fewer "
                       "multiplications (Winograd) or narrower numbers can lie above the lines; the percentage of "
                       "the roofline takes both into account.",
                       peaks.flops / 1e9, speeds)},
          {"spec", {{"data", Values(points)}, {"height", 420}, {"layer", {line, dots, labels}}}}};
}

Json PrecisionSection(const ModelRun& run) {
  if (run.layers.empty()) return nullptr;
  Json rows = Json::array();
  for (size_t i = 0; i < run.layers.size(); ++i) {
    const LayerError& layer = run.layers[i];
    rows.push_back(
        {{"layer", i}, {"name", layer.name}, {"snr", std::min(layer.snr, 160.0)}, {"largest", layer.largest}});
  }
  const Json tooltip = {Field("name", "nominal", "value"), Field("snr", "quantitative", "dB"),
                        Field("largest", "quantitative", "largest difference")};
  Json y = Field("snr", "quantitative", "signal-to-noise ratio, dB (160: equal)");
  y["scale"] = {{"zero", false}};
  return {
      {"kind", "chart"},
      {"title", "Precision per layer"},
      {"note",
       "Each value of the model compared with ONNX Runtime's, in the model's order. Errors of rounding add up "
       "slowly; a step down is where precision is lost."},
      {"spec",
       {{"data", Values(rows)},
        {"height", 260},
        {"mark", {{"type", "line"}, {"point", true}}},
        {"encoding", {{"x", Field("layer", "quantitative", "value of the model")}, {"y", y}, {"tooltip", tooltip}}}}}};
}

Json EnginesSection(const ModelRun& run) {
  if (run.engines.empty()) return nullptr;
  Json rows = Json::array();
  for (const auto& [engine, seconds] : run.engines) {
    for (double s : seconds) rows.push_back({{"engine", engine}, {"ms", s * 1e3}});
  }
  Json y = Field("engine", "nominal", "");
  y["title"] = nullptr;
  Json x = Field("ms", "quantitative", "ms a run");
  return {{"kind", "chart"},
          {"title", "Engines"},
          {"note", "Every measured run: the box holds half of them, the line in it is the median."},
          {"spec",
           {{"data", Values(rows)},
            {"height", {{"step", 40}}},
            {"mark", {{"type", "boxplot"}, {"extent", 1.5}}},
            {"encoding", {{"x", x}, {"y", y}, {"color", {{"field", "engine"}, {"legend", nullptr}}}}}}}};
}

}  // namespace treadle::report
