// SPDX-License-Identifier: Apache-2.0
// Memory over time: the plan of the graph executor's graph; of a run of a program, what its results took.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "report/graph_entries.h"
#include "report/sections.h"

namespace treadle::report {
namespace {

double EntryBytes(const Json& graph, size_t entry) {
  double bytes = DataType::FromString(graph["attrs"]["dltype"][1][entry].get<std::string>()).bits() / 8.0;
  for (const Json& dim : graph["attrs"]["shape"][1][entry]) bytes *= dim.get<double>();
  return bytes;
}

/// Of a graph whose tensors have places in one block.
Json GraphRows(const Json& graph) {
  const Json& offsets = graph["attrs"]["storage_offset"][1];
  // Calls are numbered in order; a tensor lives from the call that writes it to the last that reads it.
  std::vector<size_t> call_of(graph["nodes"].size());
  size_t calls = 0;
  std::map<size_t, size_t> last_use;
  for (size_t i = 0; i < graph["nodes"].size(); ++i) {
    if (graph["nodes"][i]["op"] != "null") call_of[i] = ++calls;
    for (const Json& input : graph["nodes"][i]["inputs"]) {
      last_use[graph["node_row_ptr"][input[0].get<size_t>()].get<size_t>() + input[1].get<size_t>()] = calls;
    }
  }
  for (const Json& head : graph["heads"]) {
    last_use[graph["node_row_ptr"][head[0].get<size_t>()].get<size_t>() + head[1].get<size_t>()] = calls;
  }
  Json rows = Json::array();
  for (size_t i = 0; i < graph["nodes"].size(); ++i) {
    const Json& node = graph["nodes"][i];
    const auto begin = graph["node_row_ptr"][i].get<size_t>(), end = graph["node_row_ptr"][i + 1].get<size_t>();
    for (size_t entry = begin; entry < end; ++entry) {
      if (offsets[entry].get<int64_t>() < 0) continue;
      const double offset = offsets[entry].get<double>() / 1024, kib = EntryBytes(graph, entry) / 1024;
      const std::string origin = node.contains("attrs") ? node["attrs"].value("origin", "") : "";
      rows.push_back({{"tensor", origin.empty() ? node["name"].get<std::string>() : origin},
                      {"from", call_of[i]},
                      {"to", std::max(last_use[entry], call_of[i]) + 1},
                      {"low", offset},
                      {"high", offset + kib},
                      {"KiB", kib},
                      {"shape", ShapeOf(graph, entry)}});
    }
  }
  return rows;
}

/// The results of a call of a program: bytes, and the calls between which they are kept.
struct Lifetime {
  size_t call = 0, from = 0, to = 0;  ///< calls are numbered from 1; `to` is the one after the last that reads it
  double bytes = 0, low = 0;
};

/// Results of calls as the run went, in its order. Calls that write nothing have none.
std::vector<Lifetime> Lifetimes(const std::vector<runtime::OpTiming>& timings) {
  std::vector<size_t> last(timings.size());
  for (size_t i = 0; i < timings.size(); ++i) {
    last[i] = std::max(last[i], timings[i].outputs.empty() ? i : timings.size() - 1);
    for (int source : timings[i].sources) {
      if (source >= 0) last[static_cast<size_t>(source)] = std::max(last[static_cast<size_t>(source)], i);
    }
  }
  std::vector<Lifetime> lifetimes;
  for (size_t i = 0; i < timings.size(); ++i) {
    const size_t arrow = timings[i].shapes.find("->");
    const double bytes = arrow == std::string::npos ? 0 : BytesOf(timings[i].shapes.substr(arrow));
    if (bytes > 0) lifetimes.push_back({i, i + 1, last[i] + 2, bytes});
  }
  return lifetimes;
}

/// Gives each the lowest place that none which is kept at the same time has.
void Place(std::vector<Lifetime>* lifetimes) {
  std::vector<const Lifetime*> live;  // by their places
  for (Lifetime& lifetime : *lifetimes) {
    live.erase(
        std::remove_if(live.begin(), live.end(), [&](const Lifetime* other) { return other->to <= lifetime.from; }),
        live.end());
    for (const Lifetime* other : live) {
      if (lifetime.low + lifetime.bytes <= other->low) break;
      lifetime.low = std::max(lifetime.low, other->low + other->bytes);
    }
    const auto at =
        std::find_if(live.begin(), live.end(), [&](const Lifetime* other) { return other->low > lifetime.low; });
    live.insert(at, &lifetime);
  }
}

/// Most bytes that are kept at once, and in which call.
std::pair<double, size_t> MostAtOnce(const std::vector<Lifetime>& lifetimes) {
  std::map<size_t, double> changes;
  for (const Lifetime& lifetime : lifetimes) {
    changes[lifetime.from] += lifetime.bytes;
    changes[lifetime.to] -= lifetime.bytes;
  }
  std::pair<double, size_t> most;
  double now = 0;
  for (const auto& [call, change] : changes) {
    now += change;
    if (now > most.first) most = {now, call};
  }
  return most;
}

Json ProgramRows(const std::vector<Lifetime>& lifetimes, const std::vector<runtime::OpTiming>& timings) {
  Json rows = Json::array();
  for (const Lifetime& lifetime : lifetimes) {
    const runtime::OpTiming& timing = timings[lifetime.call];
    const double low = lifetime.low / 1024, kib = lifetime.bytes / 1024;
    rows.push_back({{"tensor", timing.origin.empty() ? timing.name : timing.origin},
                    {"from", lifetime.from},
                    {"to", lifetime.to},
                    {"low", low},
                    {"high", low + kib},
                    {"KiB", kib},
                    {"shape", timing.shapes.substr(timing.shapes.find("->") + 3)}});
  }
  return rows;
}

Json Chart(const Json& rows, const std::string& note, const char* axis) {
  auto field = [](const char* name, const char* type, const char* title) {
    return Json{{"field", name}, {"type", type}, {"title", title}};
  };
  Json color = field("KiB", "quantitative", "KiB");
  color["scale"] = {{"scheme", "tealblues"}};
  return {{"kind", "chart"},
          {"title", "Memory over time"},
          {"note", note},
          {"spec",
           {{"data", {{"values", rows}}},
            {"height", 300},
            {"mark", {{"type", "rect"}, {"stroke", "#555"}, {"strokeWidth", 0.5}}},
            {"encoding",
             {{"x", field("from", "quantitative", "call")},
              {"x2", {{"field", "to"}}},
              {"y", field("low", "quantitative", axis)},
              {"y2", {{"field", "high"}}},
              {"color", color},
              {"tooltip",
               {field("tensor", "nominal", "result of"), field("shape", "nominal", "shape"),
                field("KiB", "quantitative", "KiB"), field("from", "quantitative", "first call"),
                field("to", "quantitative", "until call")}}}}}}};
}

}  // namespace

Json MemorySection(const ModelRun& run) {
  const Json graph = ParseGraph(run);
  const runtime::MemoryReport memory = run.model.Memory();
  const std::string beside =
      fmt::format("Beside it: {} of weights, which contexts share, and {} of inputs.",
                  BytesText(static_cast<double>(memory.params)), BytesText(static_cast<double>(memory.inputs)));
  if (!graph.is_null()) {
    if (!graph["attrs"].contains("storage_offset")) return nullptr;
    const Json rows = GraphRows(graph);
    if (rows.empty()) return nullptr;
    return Chart(rows,
                 fmt::format("Intermediate results share one block of {}; a box is a tensor, from the call that writes "
                             "it to the last that reads it. {}",
                             BytesText(graph["attrs"]["arena_bytes"][1].get<double>()), beside),
                 "KiB of the block");
  }
  constexpr size_t kMost = 3000;  // boxes that browsers draw in a second
  std::vector<Lifetime> lifetimes = Lifetimes(run.timings);
  if (lifetimes.empty() || lifetimes.size() > kMost) return nullptr;
  Place(&lifetimes);
  const auto [most, call] = MostAtOnce(lifetimes);
  return Chart(
      ProgramRows(lifetimes, run.timings),
      fmt::format(
          "Measured in this run: a box contains the results of a call, from that call to the last one that reads them. "
          "At most {} at once, in call {}. Positions are not addresses: shapes are dynamic, and memory is allocated "
          "from a pool at run time. {}",
          BytesText(most), call, beside),
      "KiB at the same time");
}

}  // namespace treadle::report
