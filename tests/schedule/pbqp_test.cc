// SPDX-License-Identifier: Apache-2.0
#include "schedule/pbqp.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace treadle::schedule {
namespace {

using Edges = std::vector<std::pair<size_t, size_t>>;

/// Random costs, small integers so that sums are exact.
class Problems {
 public:
  Pbqp Make(size_t nodes, const Edges& edges) {
    Pbqp problem;
    options_.clear();
    for (size_t i = 0; i < nodes; ++i) {
      options_.push_back(1 + random_() % 3);
      problem.AddNode(Costs(options_[i]));
    }
    for (const auto& [u, v] : edges) {
      Pbqp::Matrix costs;
      for (size_t i = 0; i < options_[u]; ++i) costs.push_back(Costs(options_[v]));
      problem.AddEdge(u, v, costs);
    }
    return problem;
  }
  /// The least cost of all choices.
  double Least(const Pbqp& problem) const {
    std::vector<size_t> choice(options_.size(), 0);
    double least = std::numeric_limits<double>::infinity();
    for (;;) {
      least = std::min(least, problem.Cost(choice));
      size_t i = 0;
      while (i < choice.size() && ++choice[i] == options_[i]) choice[i++] = 0;
      if (i == choice.size()) return least;
    }
  }
  size_t Draw(size_t below) { return random_() % below; }

 private:
  std::vector<double> Costs(size_t count) {
    std::vector<double> costs;
    for (size_t i = 0; i < count; ++i) costs.push_back(static_cast<double>(random_() % 20));
    return costs;
  }
  std::mt19937 random_{7};
  std::vector<size_t> options_;
};

TEST(Pbqp, TreesAreSolvedToTheOptimum) {
  Problems problems;
  for (int i = 0; i < 100; ++i) {
    Edges edges;
    for (size_t v = 1; v < 9; ++v) edges.push_back({problems.Draw(v), v});
    const Pbqp problem = problems.Make(9, edges);
    EXPECT_EQ(problem.Cost(problem.Solve()), problems.Least(problem));
  }
}

TEST(Pbqp, BranchesThatJoinAgainAreSolvedToTheOptimum) {
  // Residual blocks one after the other: 0 - 1 - 2, 0 - 2, 2 - 3 - 4, ...
  Problems problems;
  for (int i = 0; i < 100; ++i) {
    Edges edges;
    for (size_t v = 0; v + 2 < 9; v += 2) edges.insert(edges.end(), {{v, v + 1}, {v + 1, v + 2}, {v, v + 2}});
    const Pbqp problem = problems.Make(9, edges);
    EXPECT_EQ(problem.Cost(problem.Solve()), problems.Least(problem));
  }
}

TEST(Pbqp, WhereEachHasManyNeighboursTheChoiceIsNearTheOptimum) {
  Problems problems;
  double found = 0, least = 0;
  for (int i = 0; i < 100; ++i) {
    Edges edges;
    for (size_t u = 0; u < 7; ++u) {
      for (size_t v = u + 1; v < 7; ++v) edges.push_back({u, v});
    }
    const Pbqp problem = problems.Make(7, edges);
    found += problem.Cost(problem.Solve());
    least += problems.Least(problem);
  }
  EXPECT_LE(found, 1.03 * least);
}

TEST(Pbqp, OptionsOfInfiniteCostAreLeftOut) {
  const double never = std::numeric_limits<double>::infinity();
  Pbqp problem;
  const size_t a = problem.AddNode({0, 5}), b = problem.AddNode({0, never, 3});
  problem.AddEdge(a, b, {{never, 0, never}, {never, 0, 1}});
  EXPECT_EQ(problem.Solve(), (std::vector<size_t>{1, 2}));
}

TEST(Pbqp, EdgesBetweenTheSameNodesAddUp) {
  Pbqp problem;
  const size_t a = problem.AddNode({0, 0}), b = problem.AddNode({0, 0});
  problem.AddEdge(a, b, {{1, 2}, {3, 0}});
  problem.AddEdge(b, a, {{0, 0}, {0, 4}});
  EXPECT_EQ(problem.Solve(), (std::vector<size_t>{0, 0}));
}

}  // namespace
}  // namespace treadle::schedule
