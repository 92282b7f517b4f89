// SPDX-License-Identifier: Apache-2.0
// What the graph executor's graph shows: calls and what flows between them, and its memory over time.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "report/sections.h"

namespace treadle::report {
namespace {

/// "conv2d, add, relu" of "treadle_default_fused_nn_conv2d_add_nn_relu_3".
std::string KernelTitle(std::string name) {
  const size_t fused = name.find("fused_");
  if (fused != std::string::npos) name = name.substr(fused + 6);
  return name;
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    const size_t begin = part.find_first_not_of(' ');
    if (begin != std::string::npos) parts.push_back(part.substr(begin));
  }
  return parts;
}

std::string ShapeOf(const Json& graph, size_t entry) {
  std::string text = graph["attrs"]["dltype"][1][entry].get<std::string>();
  return text + " " + graph["attrs"]["shape"][1][entry].dump();
}

double BytesOf(const Json& graph, size_t entry) {
  double bytes = DataType::FromString(graph["attrs"]["dltype"][1][entry].get<std::string>()).bits() / 8.0;
  for (const Json& dim : graph["attrs"]["shape"][1][entry]) bytes *= dim.get<double>();
  return bytes;
}

Json ParseGraph(const ModelRun& run) {
  return run.model.graph_json().empty() ? Json() : Json::parse(run.model.graph_json());
}

Json CallNode(const Json& node, const Operation* op, double share, double heaviest) {
  const Json& attrs = node["attrs"];
  const std::vector<std::string> members = Split(attrs.value("origin", ""));
  const std::string first = members.empty() ? KernelTitle(node["name"].get<std::string>()) : members[0];
  Json box;
  box["title"] = members.size() > 1 ? fmt::format("{} + {}", first, members.size() - 1) : first;
  Json details = Json::array();
  if (op != nullptr) {
    box["subtitle"] = fmt::format("{:.3f} ms, {:.1f} %{}", op->seconds * 1e3, 100 * share,
                                  op->choice.empty() ? "" : ", " + op->choice);
    box["weight"] = heaviest > 0 ? op->seconds / heaviest : 0;
    details.push_back({"time", fmt::format("{:.4f} ms, {:.2f} % of all", op->seconds * 1e3, 100 * share)});
    if (op->macs > 0 && op->seconds > 0)
      details.push_back({"rate", fmt::format("{:.1f} GFLOP/s", 2e-9 * op->macs / op->seconds)});
    if (op->attainable > 0 && op->seconds > 0)
      details.push_back({"of the roofline", fmt::format("{:.0f} %", 100 * op->attainable / op->seconds)});
    details.push_back({"shapes", op->shapes});
  } else {
    box["subtitle"] = "moves nothing";
  }
  details.push_back({"kernel", attrs.value("func_name", "")});
  if (attrs.contains("Compiler")) details.push_back({"compiled by", attrs["Compiler"]});
  if (!members.empty()) details.push_back({"nodes of the model", attrs.value("origin", "")});
  if (op != nullptr && !op->candidates.empty()) details.push_back({"kernels to choose from (* taken)", op->candidates});
  box["members"] = members.size() > 1 ? Json(members) : Json::array();
  box["details"] = details;
  return box;
}

}  // namespace

Json GraphSection(const ModelRun& run, const std::vector<Operation>& operations) {
  const Json graph = ParseGraph(run);
  if (graph.is_null()) return nullptr;
  std::map<std::string, const Operation*> by_name;
  double heaviest = 0;
  for (const Operation& op : operations) {
    by_name[op.name] = &op;
    heaviest = std::max(heaviest, op.seconds);
  }
  const double total = TotalSeconds(operations);
  Json nodes = Json::array(), edges = Json::array();
  std::vector<bool> drawn(graph["nodes"].size());
  for (size_t i = 0; i < graph["nodes"].size(); ++i) {
    const Json& node = graph["nodes"][i];
    const std::string name = node["name"].get<std::string>();
    Json box;
    if (node["op"] == "null") {
      const auto& inputs = run.model.inputs();
      if (std::none_of(inputs.begin(), inputs.end(), [&](const auto& info) { return info.name == name; })) continue;
      box = {{"title", name}, {"subtitle", "input " + ShapeOf(graph, graph["node_row_ptr"][i].get<size_t>())}};
    } else {
      const auto it = by_name.find(name);
      const Operation* op = it == by_name.end() ? nullptr : it->second;
      box = CallNode(node, op, op != nullptr && total > 0 ? op->seconds / total : 0, heaviest);
      for (const Json& input : node["inputs"]) {
        const auto from = input[0].get<size_t>();
        if (drawn[from]) edges.push_back({std::to_string(from), std::to_string(i)});
      }
    }
    drawn[i] = true;
    box["id"] = std::to_string(i);
    nodes.push_back(std::move(box));
  }
  for (size_t i = 0; i < graph["heads"].size(); ++i) {
    const auto from = graph["heads"][i][0].get<size_t>();
    const std::string id = fmt::format("output{}", i);
    const size_t entry = graph["node_row_ptr"][from].get<size_t>() + graph["heads"][i][1].get<size_t>();
    const auto& outputs = run.model.outputs();
    nodes.push_back({{"id", id},
                     {"title", i < outputs.size() ? outputs[i].name : id},
                     {"subtitle", "output " + ShapeOf(graph, entry)}});
    if (drawn[from]) edges.push_back({std::to_string(from), id});
  }
  return {{"kind", "graph"},
          {"title", "Graph"},
          {"note",
           "A box is a kernel: the nodes of the model that were fused into it. The warmer, the more time. Choose one "
           "for its kernel, shapes and rivals; a second time, or Enter, opens it. The wheel zooms once the graph "
           "has the focus."},
          {"nodes", nodes},
          {"edges", edges}};
}

Json MemorySection(const ModelRun& run) {
  const Json graph = ParseGraph(run);
  if (graph.is_null() || !graph["attrs"].contains("storage_offset")) return nullptr;
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
      const double offset = offsets[entry].get<double>() / 1024, kib = BytesOf(graph, entry) / 1024;
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
  if (rows.empty()) return nullptr;
  auto field = [](const char* name, const char* type, const char* title) {
    return Json{{"field", name}, {"type", type}, {"title", title}};
  };
  Json color = field("KiB", "quantitative", "KiB");
  color["scale"] = {{"scheme", "tealblues"}};
  const runtime::MemoryReport memory = run.model.Memory();
  return {{"kind", "chart"},
          {"title", "Memory over time"},
          {"note",
           fmt::format("Intermediate results share one block of {}; a box is a tensor, from the call that writes it "
                       "to the last that reads it. Beside it: {} of weights, which contexts share, and {} of inputs.",
                       BytesText(graph["attrs"]["arena_bytes"][1].get<double>()),
                       BytesText(static_cast<double>(memory.params)), BytesText(static_cast<double>(memory.inputs)))},
          {"spec",
           {{"data", {{"values", rows}}},
            {"height", 300},
            {"mark", {{"type", "rect"}, {"stroke", "#555"}, {"strokeWidth", 0.5}}},
            {"encoding",
             {{"x", field("from", "quantitative", "call")},
              {"x2", {{"field", "to"}}},
              {"y", field("low", "quantitative", "KiB of the block")},
              {"y2", {{"field", "high"}}},
              {"color", color},
              {"tooltip",
               {field("tensor", "nominal", "result of"), field("shape", "nominal", "shape"),
                field("KiB", "quantitative", "KiB"), field("from", "quantitative", "first call"),
                field("to", "quantitative", "until call")}}}}}}};
}

}  // namespace treadle::report
