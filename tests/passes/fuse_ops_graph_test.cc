// SPDX-License-Identifier: Apache-2.0
// Fusion of graphs that no text states well: deep ones and random ones.
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "passes/graph_partitioner.h"
#include "relay/typed_builder.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

std::vector<int> GroupSizes(const Function& func, const FusionOptions& options) {
  IndexedForwardGraph graph = IndexedForwardGraph::Create(func);
  GraphPartitioner partitioner(graph, options);
  std::map<int, int> sizes;
  for (size_t i = 0; i < graph.size(); ++i) {
    if (graph.nodes()[i].ref->IsInstance<CallNode>()) ++sizes[partitioner.Root(static_cast<int>(i))];
  }
  std::vector<int> result;
  for (auto [root, size] : sizes) result.push_back(size);
  return result;
}

Function ExpChain(int length) {
  Var x = Param("x", F32({4}));
  Expr e = x;
  for (int i = 0; i < length; ++i) e = CallOp("test.elemwise", OpPatternKind::kElemWise, {e}, F32({4}));
  return MakeFunction({x}, e);
}

TEST(GraphPartitioner, DepthLimitSplitsChains) {
  FusionOptions options;
  EXPECT_EQ(GroupSizes(ExpChain(300), options), (std::vector<int>{256, 44}));
  options.max_depth = 10;
  EXPECT_EQ(GroupSizes(ExpChain(20), options), (std::vector<int>{10, 10}));
}

TEST(GraphPartitioner, DepthLimitCountsWholeDiamonds) {
  Var x = Param("x", F32({4}));
  Expr e = x;
  for (int i = 0; i < 3; ++i) {
    Expr left = e, right = e;
    for (int k = 0; k < 5; ++k) {
      left = CallOp("test.elemwise", OpPatternKind::kElemWise, {left}, F32({4}));
      right = CallOp("test.elemwise", OpPatternKind::kElemWise, {right}, F32({4}));
    }
    e = CallOp("test.broadcast", OpPatternKind::kBroadcast, {left, right}, F32({4}));
  }
  FusionOptions options;
  options.max_depth = 11;
  EXPECT_EQ(GroupSizes(MakeFunction({x}, e), options), (std::vector<int>{11, 11, 11}));
}

TEST(GraphPartitioner, LevelZeroKeepsOperatorsApart) {
  FusionOptions options;
  options.opt_level = 0;
  EXPECT_EQ(GroupSizes(ExpChain(5), options).size(), 5u);
}

TEST(GraphPartitioner, ArgumentLimitIsExact) {
  Array<Var> params;
  Expr sum;
  for (int i = 0; i < 60; ++i) {
    params.push_back(Param("x" + std::to_string(i), F32({4})));
    sum =
        i == 0 ? Expr(params[0]) : CallOp("test.broadcast", OpPatternKind::kBroadcast, {sum, params.back()}, F32({4}));
  }
  FusionOptions options;
  options.max_args = 31;
  IndexedForwardGraph graph = IndexedForwardGraph::Create(MakeFunction(params, sum));
  GraphPartitioner partitioner(graph, options);
  std::map<int, std::set<int>> inputs;
  for (int i = 0; i < static_cast<int>(graph.size()); ++i) {
    for (const ForwardEdge& edge : graph.nodes()[i].outputs) {
      int root = partitioner.Root(edge.consumer);
      if (partitioner.Root(i) != root) inputs[root].insert(i);
    }
  }
  EXPECT_EQ(inputs.size(), 3u);
  for (const auto& [root, values] : inputs) EXPECT_LE(values.size() + 1, 31u);
}

TEST(GraphPartitioner, NeverMergesTwoComplexOperators) {
  Var x = Param("x", F32({4}));
  Expr a = CallOp("test.complex", OpPatternKind::kOutEWiseFusable, {x}, F32({4}));
  Expr b = CallOp("test.complex", OpPatternKind::kOutEWiseFusable, {x}, F32({4}));
  Expr sum = CallOp("test.broadcast", OpPatternKind::kBroadcast, {a, b}, F32({4}));
  EXPECT_EQ(GroupSizes(MakeFunction({x}, sum), FusionOptions()), (std::vector<int>{1, 2}));
}

TEST(GraphPartitioner, ReasonsNameWhatIsInTheWay) {
  Var x = Param("x", F32({4}));
  Expr a = CallOp("test.complex", OpPatternKind::kOutEWiseFusable, {x}, F32({4}));
  Expr b = CallOp("test.injective", OpPatternKind::kInjective, {a}, F32({4}));
  IndexedForwardGraph graph = IndexedForwardGraph::Create(MakeFunction({x}, b));
  auto rejections = GraphPartitioner(graph, FusionOptions()).Rejections();
  ASSERT_EQ(rejections.size(), 1u);
  EXPECT_EQ(rejections[0].node, 1);
  EXPECT_EQ(rejections[0].reason, "a complex operator takes in element-wise consumers only, these are injective");
}

TEST(GraphPartitioner, DeepChain) { EXPECT_EQ(GroupSizes(ExpChain(200000), FusionOptions()).size(), 782u); }

}  // namespace
}  // namespace treadle::relay
