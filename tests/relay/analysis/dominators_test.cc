// SPDX-License-Identifier: Apache-2.0
#include "relay/analysis/dominators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "relay/typed_builder.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

/// A random graph of operators of all patterns; several values are results.
Function RandomGraph(uint32_t seed, int size) {
  static const char* const kNames[] = {"test.elemwise", "test.broadcast", "test.injective", "test.reduce",
                                       "test.complex"};
  std::mt19937 random(seed);
  auto pick = [&](size_t n) { return random() % static_cast<uint32_t>(n); };
  Array<Var> params{Param("x", F32({4})), Param("y", F32({4}))};
  std::vector<Expr> values{params[0], params[1]};
  for (int i = 0; i < size; ++i) {
    Array<Expr> args;
    for (size_t k = 1 + pick(2); k > 0; --k)
      args.push_back(values[values.size() - 1 - pick(std::min<size_t>(6, values.size()))]);
    size_t kind = pick(7);
    if (kind < 5) {
      values.push_back(CallOp(kNames[kind], static_cast<OpPatternKind>(kind), args, F32({pick(3) == 0 ? 5 : 4})));
    } else {
      values.push_back(Field(Fields(args), 0));
    }
  }
  Array<Expr> results{values.back()};
  while (pick(3) == 0) results.push_back(values[pick(values.size())]);
  return MakeFunction(params, results.size() == 1 ? results[0] : Fields(results));
}

/// Nodes that lie on every path from node `i` to the outside, without `i`, in order of index. Exponential.
std::vector<int> NodesOnAllPaths(const IndexedForwardGraph& graph, int i, std::vector<std::set<int>>* memo,
                                 std::vector<char>* known) {
  if (!(*known)[i]) {
    (*known)[i] = 1;
    const ForwardNode& node = graph.nodes()[i];
    bool first = true;
    for (const ForwardEdge& edge : node.outputs) {
      NodesOnAllPaths(graph, edge.consumer, memo, known);
      std::set<int> through = (*memo)[edge.consumer];
      through.insert(edge.consumer);
      if (first) {
        (*memo)[i] = through;
      } else {
        std::set<int> both;
        for (int n : through) {
          if ((*memo)[i].count(n)) both.insert(n);
        }
        (*memo)[i] = both;
      }
      first = false;
    }
    if (node.extern_ref) (*memo)[i].clear();  // leaves here, too
  }
  return std::vector<int>((*memo)[i].begin(), (*memo)[i].end());
}

TEST(PostDominators, AgreeWithPathEnumeration) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    IndexedForwardGraph graph = IndexedForwardGraph::Create(RandomGraph(seed, 24));
    std::vector<DominatorNode> tree = PostDominators(graph);
    std::vector<std::set<int>> memo(graph.size());
    std::vector<char> known(graph.size(), 0);
    for (int i = 0; i < static_cast<int>(graph.size()); ++i) {
      std::vector<int> all = NodesOnAllPaths(graph, i, &memo, &known);
      ASSERT_EQ(tree[i].parent, all.empty() ? -1 : all.front()) << "seed " << seed << " node " << i;
      ASSERT_EQ(tree[i].depth, static_cast<int>(all.size()) + 1) << "seed " << seed << " node " << i;
    }
  }
}

/// The pattern as it results from walking up from the consumers step by step.
OpPatternKind WalkedPattern(const IndexedForwardGraph& graph, const std::vector<DominatorNode>& tree, int i) {
  OpPatternKind pattern = OpPatternKind::kElemWise;
  int meet = -1;
  for (const ForwardEdge& edge : graph.nodes()[i].outputs) {
    pattern = MaxPattern(pattern, edge.pattern);
    int other = edge.consumer;
    if (meet < 0) meet = other;
    while (meet != other) {
      int& deeper = tree[meet].depth >= tree[other].depth ? meet : other;
      pattern = MaxPattern(pattern, tree[deeper].pattern);
      deeper = tree[deeper].parent;
    }
  }
  return pattern;
}

TEST(PostDominators, PatternIsTheHighestOnTheWay) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    IndexedForwardGraph graph = IndexedForwardGraph::Create(RandomGraph(seed, 24));
    std::vector<DominatorNode> tree = PostDominators(graph);
    for (int i = 0; i < static_cast<int>(graph.size()); ++i) {
      if (tree[i].parent < 0) continue;
      ASSERT_EQ(tree[i].pattern, WalkedPattern(graph, tree, i)) << "seed " << seed << " node " << i;
    }
  }
}

TEST(IndexedForwardGraph, NumbersNodesInPostOrder) {
  Var x = Param("x", F32({10, 20})), b = Param("b", F32({20}));
  Expr add = CallOp("test.broadcast", OpPatternKind::kBroadcast, {x, b}, F32({10, 20}));
  Expr relu = CallOp("test.elemwise", OpPatternKind::kElemWise, {add}, F32({10, 20}));
  IndexedForwardGraph graph = IndexedForwardGraph::Create(MakeFunction({x, b}, relu));
  EXPECT_EQ(graph.Dump(),
            "0: var %x [opaque] extern -> 2(elemwise)\n"
            "1: var %b [opaque] extern -> 2(broadcast)\n"
            "2: test.broadcast [broadcast] -> 3(elemwise)\n"
            "3: test.elemwise [elemwise] extern\n");
}

TEST(IndexedForwardGraph, OperatorWithoutPatternIsOpaque) {
  OpRegistration("test.no_pattern").Describe("");
  Var x = Param("x", F32({2}));
  Expr call = Typed(Call(Op::Get("test.no_pattern"), {x}), F32({2}));
  const IndexedForwardGraph graph = IndexedForwardGraph::Create(MakeFunction({x}, call));
  ASSERT_EQ(graph.nodes().size(), 2u);  // the parameter, the call
  EXPECT_EQ(graph.nodes()[1].pattern, OpPatternKind::kOpaque);
}

TEST(PostDominators, DeepChain) {
  Var x = Param("x", F32({4}));
  Expr e = x;
  for (int i = 0; i < 200000; ++i)
    e = CallOp("test.broadcast", OpPatternKind::kBroadcast, {e, i % 2 ? e : x}, F32({4}));
  IndexedForwardGraph graph = IndexedForwardGraph::Create(MakeFunction({x}, e));
  EXPECT_EQ(PostDominators(graph)[1].depth, 200000);
}

}  // namespace
}  // namespace treadle::relay
