// SPDX-License-Identifier: Apache-2.0
// Choosing one option for each of many nodes, whose costs depend on their own option and on pairs of neighbours' ones:
// a partitioned boolean quadratic problem.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace treadle::schedule {

/// Nodes of up to two neighbours are taken out one after the other, which is exact: so chains, trees and what joins
/// again (residual networks) are solved to the optimum. Where all that is left have more, the options of one with the
/// most are weighed by what neighbours would take then; in the end single nodes are changed while that gains
/// (Scholz & Eckstein 2002, "Register allocation for irregular architectures"; Anderson & Gregg 2018 use it for
/// layouts).
class Pbqp {
 public:
  /// costs[u's option][v's option]
  using Matrix = std::vector<std::vector<double>>;

  /// Adds a node with the cost of each of its options, at least one; its number. Costs may be infinite, not NaN.
  size_t AddNode(std::vector<double> costs);
  /// Adds to the costs of pairs of options of two different nodes.
  void AddEdge(size_t u, size_t v, const Matrix& costs);
  /// The option of each node.
  std::vector<size_t> Solve() const;
  double Cost(const std::vector<size_t>& options) const;

 private:
  struct Graph {
    std::vector<std::vector<double>> nodes;
    /// By node and neighbour, each edge from both sides.
    std::vector<std::map<size_t, Matrix>> edges;
    void Add(size_t u, size_t v, const Matrix& costs);
    void Disconnect(size_t node);
  };
  class Reduction;
  double CostAt(size_t node, size_t option, const std::vector<size_t>& options) const;

  Graph graph_;
};

}  // namespace treadle::schedule
