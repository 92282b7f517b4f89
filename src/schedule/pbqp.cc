// SPDX-License-Identifier: Apache-2.0
#include "schedule/pbqp.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "treadle/base/error.h"

namespace treadle::schedule {
namespace {

size_t LeastOf(const std::vector<double>& costs) {
  return static_cast<size_t>(std::min_element(costs.begin(), costs.end()) - costs.begin());
}

}  // namespace

size_t Pbqp::AddNode(std::vector<double> costs) {
  TREADLE_ICHECK(!costs.empty()) << "a node without options";
  graph_.nodes.push_back(std::move(costs));
  graph_.edges.emplace_back();
  return graph_.nodes.size() - 1;
}

void Pbqp::AddEdge(size_t u, size_t v, const Matrix& costs) {
  TREADLE_ICHECK(u != v && costs.size() == graph_.nodes.at(u).size()) << "costs of other options than nodes have";
  for (const auto& row : costs) TREADLE_ICHECK(row.size() == graph_.nodes.at(v).size()) << "rows of other options";
  graph_.Add(u, v, costs);
}

void Pbqp::Graph::Add(size_t u, size_t v, const Matrix& costs) {
  Matrix &forth = edges[u][v], &back = edges[v][u];
  if (forth.empty()) {
    forth.assign(nodes[u].size(), std::vector<double>(nodes[v].size(), 0.0));
    back.assign(nodes[v].size(), std::vector<double>(nodes[u].size(), 0.0));
  }
  for (size_t i = 0; i < costs.size(); ++i) {
    for (size_t j = 0; j < costs[i].size(); ++j) {
      forth[i][j] += costs[i][j];
      back[j][i] += costs[i][j];
    }
  }
}

void Pbqp::Graph::Disconnect(size_t node) {
  for (const auto& [other, costs] : edges[node]) edges[other].erase(node);
  edges[node].clear();
}

/// Takes out all nodes, and then chooses their options in the opposite order.
class Pbqp::Reduction {
 public:
  explicit Reduction(Graph graph) : graph_(std::move(graph)) {
    for (size_t node = 0; node < graph_.nodes.size(); ++node) Sort(node);
  }

  std::vector<size_t> Run() {
    while (!few_.empty() || !many_.empty()) {
      if (!few_.empty()) {
        TakeOut(*few_.begin());
      } else {
        Settle(std::prev(many_.end())->second);
      }
    }
    std::vector<size_t> options(graph_.nodes.size(), 0);
    for (auto it = taken_.rbegin(); it != taken_.rend(); ++it) {
      std::vector<double> costs = it->costs;
      for (const auto& [other, edge] : it->edges) {
        for (size_t i = 0; i < costs.size(); ++i) costs[i] += edge[i][options[other]];
      }
      options[it->node] = LeastOf(costs);
    }
    return options;
  }

 private:
  struct Taken {
    size_t node;
    std::vector<double> costs;
    std::map<size_t, Matrix> edges;
  };

  void Sort(size_t node) {
    few_.erase(node);
    if (auto it = degree_.find(node); it != degree_.end()) many_.erase({it->second, node});
    const size_t degree = graph_.edges[node].size();
    degree_[node] = degree;
    if (degree <= 2) {
      few_.insert(node);
    } else {
      many_.insert({degree, node});
    }
  }

  /// A node of at most two neighbours: what it costs at best becomes a cost of theirs.
  void TakeOut(size_t node) {
    const Taken taken{node, graph_.nodes[node], graph_.edges[node]};
    Remove(taken);
    if (taken.edges.size() == 1) {
      const auto& [u, edge] = *taken.edges.begin();
      for (size_t i = 0; i < graph_.nodes[u].size(); ++i) {
        graph_.nodes[u][i] += Best(taken.costs, [&edge = edge, i](size_t k) { return edge[k][i]; });
      }
    } else if (taken.edges.size() == 2) {
      const auto& [u, of_u] = *taken.edges.begin();
      const auto& [v, of_v] = *std::next(taken.edges.begin());
      Matrix costs(graph_.nodes[u].size(), std::vector<double>(graph_.nodes[v].size()));
      for (size_t i = 0; i < costs.size(); ++i) {
        for (size_t j = 0; j < costs[i].size(); ++j) {
          costs[i][j] = Best(taken.costs, [&a = of_u, &b = of_v, i, j](size_t k) { return a[k][i] + b[k][j]; });
        }
      }
      graph_.Add(u, v, costs);
    }
    for (const auto& [other, edge] : taken.edges) Sort(other);
  }

  /// A node of more neighbours takes the option that is best if each neighbour then takes its own best one.
  void Settle(size_t node) {
    Taken taken{node, graph_.nodes[node], graph_.edges[node]};
    Remove(taken);
    std::vector<double> costs = taken.costs;
    for (size_t k = 0; k < costs.size(); ++k) {
      for (const auto& [other, edge] : taken.edges) {
        costs[k] += Best(graph_.nodes[other], [&edge = edge, k](size_t i) { return edge[k][i]; });
      }
    }
    const size_t option = LeastOf(costs);
    for (const auto& [other, edge] : taken.edges) {
      for (size_t i = 0; i < graph_.nodes[other].size(); ++i) graph_.nodes[other][i] += edge[option][i];
      Sort(other);
    }
    Taken& settled = taken_.back();
    settled.edges.clear();
    settled.costs.assign(settled.costs.size(), std::numeric_limits<double>::infinity());
    settled.costs[option] = 0;
  }

  template <typename More>
  static double Best(const std::vector<double>& costs, const More& more) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t k = 0; k < costs.size(); ++k) least = std::min(least, costs[k] + more(k));
    return least;
  }

  void Remove(const Taken& taken) {
    graph_.Disconnect(taken.node);
    few_.erase(taken.node);
    many_.erase({degree_[taken.node], taken.node});
    taken_.push_back(taken);
  }

  Graph graph_;
  std::set<size_t> few_;                      ///< nodes of at most two neighbours
  std::set<std::pair<size_t, size_t>> many_;  ///< (neighbours, node) of the others
  std::map<size_t, size_t> degree_;
  std::vector<Taken> taken_;
};

double Pbqp::CostAt(size_t node, size_t option, const std::vector<size_t>& options) const {
  double cost = graph_.nodes[node][option];
  for (const auto& [other, edge] : graph_.edges[node]) cost += edge[option][options[other]];
  return cost;
}

std::vector<size_t> Pbqp::Solve() const {
  std::vector<size_t> options = Reduction(graph_).Run();
  constexpr int kMostPasses = 8;
  bool better = true;
  for (int pass = 0; better && pass < kMostPasses; ++pass) {
    better = false;
    for (size_t node = 0; node < options.size(); ++node) {
      std::vector<double> costs;
      for (size_t k = 0; k < graph_.nodes[node].size(); ++k) costs.push_back(CostAt(node, k, options));
      const size_t best = LeastOf(costs);
      if (!(costs[best] < costs[options[node]])) continue;
      options[node] = best;
      better = true;
    }
  }
  return options;
}

double Pbqp::Cost(const std::vector<size_t>& options) const {
  double cost = 0;
  for (size_t u = 0; u < options.size(); ++u) {
    cost += graph_.nodes[u].at(options[u]);
    for (const auto& [v, edge] : graph_.edges[u]) {
      if (u < v) cost += edge[options[u]][options[v]];
    }
  }
  return cost;
}

}  // namespace treadle::schedule
