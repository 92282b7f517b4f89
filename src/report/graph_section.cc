// SPDX-License-Identifier: Apache-2.0
// Calls and what flows between them: of the graph executor's graph, of a run of a program.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "report/graph_entries.h"
#include "report/sections.h"

namespace treadle::report {

std::string ShapeOf(const Json& graph, size_t entry) {
  std::string text = graph["attrs"]["dltype"][1][entry].get<std::string>();
  return text + " " + graph["attrs"]["shape"][1][entry].dump();
}

Json ParseGraph(const ModelRun& run) {
  return run.model.graph_json().empty() ? Json() : Json::parse(run.model.graph_json());
}

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

/// A call: of the graph, or several of one place of a program, which `op` is the sum of. `op` may be null.
struct CallInfo {
  std::string name, kernel, origin, compiler;
  const Operation* op = nullptr;
  size_t calls = 1;
};

Json CallNode(const CallInfo& call, double share, double heaviest) {
  const std::vector<std::string> members = Split(call.origin);
  const std::string first = members.empty() ? KernelTitle(call.name) : members[0];
  const Operation* op = call.op;
  Json box;
  box["title"] = members.size() > 1 ? fmt::format("{} + {}", first, members.size() - 1) : first;
  Json details = Json::array();
  if (op != nullptr) {
    box["subtitle"] =
        fmt::format("{}, {:.1f} %{}", TimeText(op->seconds), 100 * share, op->choice.empty() ? "" : ", " + op->choice);
    box["weight"] = heaviest > 0 ? op->seconds / heaviest : 0;
    details.push_back({"time", fmt::format("{}, {:.2f} % of all", TimeText(op->seconds), 100 * share)});
    if (call.calls > 1) details.push_back({"calls", std::to_string(call.calls)});
    if (op->macs > 0 && op->seconds > 0)
      details.push_back({"rate", fmt::format("{:.1f} GFLOP/s", 2e-9 * op->macs / op->seconds)});
    if (op->attainable > 0 && op->seconds > 0)
      details.push_back({"of the roofline", fmt::format("{:.0f} %", 100 * op->attainable / op->seconds)});
    details.push_back({call.calls > 1 ? "shapes of the first call" : "shapes", op->shapes});
  } else {
    box["subtitle"] = "moves nothing";
  }
  details.push_back({"kernel", call.kernel});
  if (!call.compiler.empty()) details.push_back({"compiled by", call.compiler});
  if (!members.empty()) details.push_back({"nodes of the model", call.origin});
  if (op != nullptr && !op->candidates.empty()) details.push_back({"kernels to choose from (* taken)", op->candidates});
  box["members"] = members.size() > 1 ? Json(members) : Json::array();
  box["details"] = details;
  return box;
}

}  // namespace

namespace {

Json Section(const std::string& more, Json nodes, Json edges) {
  return {{"kind", "graph"},
          {"title", "Graph"},
          {"note",
           "Each box is a kernel with the nodes of the model that were fused into it; warmer colours take more time." +
               more +
               " Click a box for its kernel, shapes and competing kernels; click again or press Enter to expand it. "
               "The mouse wheel "
               "zooms once the graph has the focus."},
          {"nodes", std::move(nodes)},
          {"edges", std::move(edges)}};
}

/// What a run of a program called: a box for each place of the program that calls a kernel.
Json ProgramGraph(const ModelRun& run, const std::vector<Operation>& operations) {
  struct Place {
    size_t first;
    Operation sum;
    size_t calls = 0;
  };
  std::map<int, Place> places;
  for (size_t i = 0; i < run.timings.size(); ++i) {
    const auto [it, fresh] = places.emplace(run.timings[i].site, Place{i, operations[i]});
    Operation& sum = it->second.sum;
    if (!fresh) {
      sum.seconds += operations[i].seconds;
      sum.macs += operations[i].macs;
      sum.attainable += operations[i].attainable;
    }
    ++it->second.calls;
  }
  if (places.empty() || places.begin()->first < 0) return nullptr;
  double heaviest = 0;
  for (const auto& [site, place] : places) heaviest = std::max(heaviest, place.sum.seconds);
  const double total = TotalSeconds(operations);
  Json nodes = Json::array();
  std::set<std::pair<std::string, std::string>> edges;
  for (size_t i = 0; i < run.model.inputs().size(); ++i) {
    const runtime::TensorInfo& info = run.model.inputs()[i];
    nodes.push_back({{"id", fmt::format("input{}", i)}, {"title", info.name}, {"subtitle", "input " + info.str()}});
  }
  for (size_t i = 0; i < run.model.outputs().size(); ++i) {
    const runtime::TensorInfo& info = run.model.outputs()[i];
    nodes.push_back({{"id", fmt::format("output{}", i)}, {"title", info.name}, {"subtitle", "output " + info.str()}});
  }
  for (const auto& [site, place] : places) {
    const Operation& op = place.sum;
    Json box = CallNode({op.name, op.kernel, op.origin, op.compiler, &op, place.calls},
                        total > 0 ? op.seconds / total : 0, heaviest);
    box["id"] = std::to_string(site);
    nodes.push_back(std::move(box));
  }
  for (const runtime::OpTiming& timing : run.timings) {
    const std::string id = std::to_string(timing.site);
    for (int source : timing.sources) {
      const std::string from = source < 0 ? fmt::format("input{}", -1 - source)
                                          : std::to_string(run.timings[static_cast<size_t>(source)].site);
      if (from != id) edges.emplace(from, id);
    }
    for (int output : timing.outputs) edges.emplace(id, fmt::format("output{}", output));
  }
  Json lines = Json::array();
  for (const auto& [from, to] : edges) lines.push_back({from, to});
  return Section(" As this run went: what its inputs left out isn't there, and what a loop repeats is one box.",
                 std::move(nodes), std::move(lines));
}

}  // namespace

Json GraphSection(const ModelRun& run, const std::vector<Operation>& operations) {
  const Json graph = ParseGraph(run);
  if (graph.is_null()) return ProgramGraph(run, operations);
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
      const Json& attrs = node["attrs"];
      box = CallNode({name, attrs.value("func_name", ""), attrs.value("origin", ""), attrs.value("Compiler", ""), op},
                     op != nullptr && total > 0 ? op->seconds / total : 0, heaviest);
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
  return Section("", std::move(nodes), std::move(edges));
}

}  // namespace treadle::report
