// SPDX-License-Identifier: Apache-2.0
// Names and order of a graph's nodes.
//
// A graph is finished from the inside out: what a subgraph reads and doesn't define is what its node reads, in
// addition to the node's inputs. What the outermost graph reads and doesn't define is an error. Nodes that no output of
// their graph depends on are marked.
#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "frontend/onnx/checks.h"
#include "treadle/base/error.h"

namespace treadle::onnx {
namespace {

/// A value that something reads: its name, who reads it (for messages), and whether an output depends on that.
struct Use {
  std::string name;
  std::string reader;
  bool needed = true;
};

class GraphChecker {
 public:
  explicit GraphChecker(const std::string& source) : source_(source) {}

  /// Checks and sorts; returns the uses of names that `graph` doesn't define.
  std::vector<Use> Finish(Graph& graph, const std::string& what);
  void FinishFunction(Function& function);
  [[noreturn]] void FailUndefined(const Use& use) {
    Fail(StrCat(use.reader, " reads ", QuoteName(use.name), ", which nothing defines"));
  }

 private:
  using NodeOfValue = std::unordered_map<std::string, int64_t>;  ///< -1: input or initialiser
  [[noreturn]] void Fail(const std::string& message) { throw ModelFormatError(StrCat(source_, ": ", message)); }

  void DefineInputs(const Graph& graph, const std::string& what, NodeOfValue& definitions);
  void DefineOutputs(const std::vector<Node>& nodes, const std::string& what, NodeOfValue& definitions);
  std::vector<Use> FinishSubgraphs(Node& node);
  void FinishSubgraph(std::shared_ptr<const Graph>& graph, const Node& node, const std::string& attribute,
                      std::vector<Use>& uses);
  std::vector<Use> SortNodes(std::vector<Node>& nodes, const std::vector<std::string>& outputs, const std::string& what,
                             const NodeOfValue& definitions);
  std::vector<int64_t> Order(const std::vector<Node>& nodes, const std::string& what,
                             const std::vector<std::vector<int64_t>>& reads);
  [[noreturn]] void FailCycle(const std::vector<Node>& nodes, const std::string& what,
                              const std::vector<std::vector<int64_t>>& reads, const std::vector<bool>& done);

  const std::string& source_;
};

std::string NodeText(const Node& node) {
  return StrCat("node ", QuoteName(node.DisplayName()), " (", node.op_type, ")");
}

void GraphChecker::DefineInputs(const Graph& graph, const std::string& what, NodeOfValue& definitions) {
  std::unordered_set<std::string> initialised;
  auto initialise = [&](const std::string& name) {
    if (name.empty()) Fail(StrCat(what, " has an initializer without a name"));
    if (!initialised.insert(name).second) Fail(StrCat(what, " has two initializers named ", QuoteName(name)));
    definitions.emplace(name, -1);
  };
  for (const auto& tensor : graph.initializers) initialise(tensor->name);
  for (const auto& tensor : graph.sparse_initializers) initialise(tensor->values.name);
  std::unordered_set<std::string> inputs;
  for (const ValueInfo& input : graph.inputs) {
    if (input.name.empty()) Fail(StrCat(what, " has an input without a name"));
    if (!inputs.insert(input.name).second) Fail(StrCat(what, " has two inputs named ", QuoteName(input.name)));
    definitions.emplace(input.name, -1);
  }
}

void GraphChecker::DefineOutputs(const std::vector<Node>& nodes, const std::string& what, NodeOfValue& definitions) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].outputs) {
      if (output.empty()) continue;
      auto [it, inserted] = definitions.emplace(output, static_cast<int64_t>(i));
      if (inserted) continue;
      std::string other = it->second < 0 ? StrCat("an input or initializer of ", what)
                                         : NodeText(nodes[static_cast<size_t>(it->second)]);
      Fail(StrCat(NodeText(nodes[i]), " writes ", QuoteName(output), ", which is already defined by ", other));
    }
  }
}

void GraphChecker::FinishSubgraph(std::shared_ptr<const Graph>& graph, const Node& node, const std::string& attribute,
                                  std::vector<Use>& uses) {
  auto finished = std::make_shared<Graph>(*graph);
  std::vector<Use> free = Finish(*finished, StrCat(QuoteName(attribute), " of ", NodeText(node)));
  uses.insert(uses.end(), free.begin(), free.end());
  graph = std::move(finished);
}

std::vector<Use> GraphChecker::FinishSubgraphs(Node& node) {
  std::vector<Use> uses;
  for (Attribute& attribute : node.attributes) {
    if (attribute.g) FinishSubgraph(attribute.g, node, attribute.name, uses);
    for (auto& graph : attribute.graphs) FinishSubgraph(graph, node, attribute.name, uses);
  }
  return uses;
}

/// Marks the nodes that none of `outputs` depends on. `uses`: what each node reads.
void MarkUnneeded(std::vector<Node>& nodes, const std::vector<std::vector<Use>>& uses,
                  const std::vector<std::string>& outputs,
                  const std::unordered_map<std::string, int64_t>& definitions) {
  std::vector<size_t> needed;
  for (Node& node : nodes) node.needed = false;
  auto need = [&](const std::string& name) {
    auto it = definitions.find(name);
    if (it == definitions.end() || it->second < 0 || nodes[static_cast<size_t>(it->second)].needed) return;
    needed.push_back(static_cast<size_t>(it->second));
    nodes[needed.back()].needed = true;
  };
  for (const std::string& output : outputs) need(output);
  while (!needed.empty()) {
    const size_t node = needed.back();
    needed.pop_back();
    for (const Use& use : uses[node]) {
      if (use.needed) need(use.name);
    }
  }
}

std::vector<Use> GraphChecker::SortNodes(std::vector<Node>& nodes, const std::vector<std::string>& outputs,
                                         const std::string& what, const NodeOfValue& definitions) {
  std::vector<std::vector<Use>> uses(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& input : nodes[i].inputs) {
      if (!input.empty()) uses[i].push_back({input, NodeText(nodes[i])});
    }
    for (Use& use : FinishSubgraphs(nodes[i])) uses[i].push_back(std::move(use));
  }
  MarkUnneeded(nodes, uses, outputs, definitions);
  std::vector<Use> undefined;
  std::unordered_map<std::string, size_t> reported;
  std::vector<std::vector<int64_t>> reads(nodes.size());  // per node: the nodes whose outputs it reads
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (Use& use : uses[i]) {
      use.needed = use.needed && nodes[i].needed;
      auto it = definitions.find(use.name);
      if (it != definitions.end()) {
        if (it->second >= 0) reads[i].push_back(it->second);
        continue;
      }
      const auto [place, inserted] = reported.emplace(use.name, undefined.size());
      if (inserted) {
        undefined.push_back(std::move(use));
      } else if (use.needed) {
        undefined[place->second].needed = true;
      }
    }
  }
  bool sorted = true;
  for (size_t i = 0; i < nodes.size() && sorted; ++i) {
    for (int64_t producer : reads[i]) sorted &= producer < static_cast<int64_t>(i);
  }
  if (sorted) return undefined;
  std::vector<Node> ordered;
  ordered.reserve(nodes.size());
  for (int64_t i : Order(nodes, what, reads)) ordered.push_back(std::move(nodes[static_cast<size_t>(i)]));
  nodes = std::move(ordered);
  return undefined;
}

std::vector<int64_t> GraphChecker::Order(const std::vector<Node>& nodes, const std::string& what,
                                         const std::vector<std::vector<int64_t>>& reads) {
  std::vector<std::vector<int64_t>> readers(nodes.size());
  std::vector<int64_t> waiting(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    waiting[i] = static_cast<int64_t>(reads[i].size());
    for (int64_t producer : reads[i]) readers[static_cast<size_t>(producer)].push_back(static_cast<int64_t>(i));
  }
  // The earliest node of the file that is ready goes first.
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (waiting[i] == 0) ready.push(static_cast<int64_t>(i));
  }
  std::vector<int64_t> order;
  std::vector<bool> done(nodes.size(), false);
  while (!ready.empty()) {
    int64_t next = ready.top();
    ready.pop();
    order.push_back(next);
    done[static_cast<size_t>(next)] = true;
    for (int64_t reader : readers[static_cast<size_t>(next)]) {
      if (--waiting[static_cast<size_t>(reader)] == 0) ready.push(reader);
    }
  }
  if (order.size() != nodes.size()) FailCycle(nodes, what, reads, done);
  return order;
}

void GraphChecker::FailCycle(const std::vector<Node>& nodes, const std::string& what,
                             const std::vector<std::vector<int64_t>>& reads, const std::vector<bool>& done) {
  // Every node that isn't done reads one that isn't done: following those ends in a cycle.
  auto current = static_cast<int64_t>(std::find(done.begin(), done.end(), false) - done.begin());
  std::unordered_map<int64_t, size_t> position;
  std::vector<int64_t> walk;
  while (position.emplace(current, walk.size()).second) {
    walk.push_back(current);
    for (int64_t producer : reads[static_cast<size_t>(current)]) {
      if (!done[static_cast<size_t>(producer)]) {
        current = producer;
        break;
      }
    }
  }
  constexpr size_t kMaxShown = 5;
  std::string text;
  for (size_t i = position[current]; i < walk.size(); ++i) {
    if (i - position[current] == kMaxShown) {
      text += "... ";
      break;
    }
    text += StrCat(QuoteName(nodes[static_cast<size_t>(walk[i])].DisplayName()), " reads from ");
  }
  Fail(StrCat("the nodes of ", what, " form a cycle: ", text,
              QuoteName(nodes[static_cast<size_t>(current)].DisplayName())));
}

std::vector<Use> GraphChecker::Finish(Graph& graph, const std::string& what) {
  NodeOfValue definitions;
  DefineInputs(graph, what, definitions);
  DefineOutputs(graph.nodes, what, definitions);
  std::vector<std::string> outputs;
  for (const ValueInfo& output : graph.outputs) outputs.push_back(output.name);
  std::vector<Use> undefined = SortNodes(graph.nodes, outputs, what, definitions);
  for (const ValueInfo& output : graph.outputs) {
    if (output.name.empty()) Fail(StrCat(what, " has an output without a name"));
    if (!definitions.count(output.name)) undefined.push_back({output.name, StrCat("an output of ", what)});
  }
  return undefined;
}

void GraphChecker::FinishFunction(Function& function) {
  std::string what = StrCat("function ", QuoteName(StrCat(function.domain, ".", function.name)));
  NodeOfValue definitions;
  for (const std::string& input : function.inputs) {
    if (!definitions.emplace(input, -1).second) Fail(StrCat(what, " has two inputs named ", QuoteName(input)));
  }
  DefineOutputs(function.nodes, what, definitions);
  std::vector<Use> undefined = SortNodes(function.nodes, function.outputs, what, definitions);
  if (!undefined.empty()) FailUndefined(undefined.front());
  for (const std::string& output : function.outputs) {
    if (!definitions.count(output)) FailUndefined({output, StrCat("an output of ", what)});
  }
}

}  // namespace

void CheckGraph(Model& model) {
  GraphChecker checker(model.source);
  std::vector<Use> undefined = checker.Finish(model.graph, "the graph");
  if (!undefined.empty()) checker.FailUndefined(undefined.front());
  std::unordered_set<std::string> functions;
  for (Function& function : model.functions) {
    checker.FinishFunction(function);
    if (!functions.insert(StrCat(function.domain, "\n", function.name, "\n", function.overload)).second) {
      throw ModelFormatError(StrCat(model.source, ": function ", QuoteName(StrCat(function.domain, ".", function.name)),
                                    " is defined twice"));
    }
  }
  if (model.graph.outputs.empty()) throw ModelFormatError(StrCat(model.source, ": the graph has no output"));
}

}  // namespace treadle::onnx
