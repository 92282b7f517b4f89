// SPDX-License-Identifier: Apache-2.0
#include "driver/memory/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "driver/memory/memory_arena.h"
#include "relay/typed_builder.h"

namespace treadle::driver {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

int64_t IdOf(const MemoryPlan& plan, const Expr& expr) { return plan.at(expr).storage_ids.at(0); }

std::vector<int64_t> IdsOf(const MemoryPlan& plan, const std::vector<Expr>& exprs) {
  std::vector<int64_t> ids;
  for (const Expr& expr : exprs) {
    for (int64_t id : plan.at(expr).storage_ids) ids.push_back(id);
  }
  return ids;
}

int64_t PoolBytes(const MemoryPlan& plan) {
  int64_t total = 0;
  for (const auto& [id, bytes] : StorageSizes(plan)) total += bytes;
  return total;
}

using Ids = std::vector<int64_t>;

TEST(RelayMemoryPlan, ReusesBlocksAlongChain) {
  Var x = Param("x", F32({10})), y = Param("y", F32({1}));
  Expr t = Kernel({y}, F32({1}));
  Expr z = Kernel({x, t}, F32({10}));
  std::vector<Expr> all{x, y, t, z};
  for (int i = 0; i < 5; ++i) all.push_back(Kernel({all.back()}, F32({10})));
  MemoryPlan plan = GraphPlanMemory(MakeFunction({x, y}, all.back()));
  EXPECT_EQ(IdsOf(plan, all), (Ids{0, 1, 2, 3, 2, 3, 2, 3, 2}));
  EXPECT_EQ(PoolBytes(plan), 124);
}

TEST(RelayMemoryPlan, ReshapeSharesItsInput) {
  Var x = Param("x", F32({10, 4}));
  Expr a = Kernel({x}, F32({1, 10, 4}));
  Expr z0 = Kernel({a}, F32({2, 20}), OpPatternKind::kInjective, /*reshape_only=*/true);
  Expr b = Kernel({a}, F32({1, 10, 4}));
  Expr c = Kernel({b}, F32({1, 10, 4}));
  Expr d = Kernel({b}, F32({40}), OpPatternKind::kInjective, true);
  MemoryPlan plan = GraphPlanMemory(MakeFunction({x}, Fields({z0, c, d})));
  EXPECT_EQ(IdsOf(plan, {x, a, z0, b, c, d}), (Ids{0, 1, 1, 2, 3, 2}));
}

TEST(RelayMemoryPlan, KeepsResidualInputAlive) {
  TensorType type = F32({1, 16, 8, 8});
  Var x = Param("x", type);
  Expr a = Kernel({x}, type), b = Kernel({a}, type), c = Kernel({b}, type);
  Expr d = Kernel({a, c}, type), e = Kernel({d}, type);
  MemoryPlan plan = GraphPlanMemory(MakeFunction({x}, e));
  EXPECT_EQ(IdsOf(plan, {x, a, b, c, d, e}), (Ids{0, 1, 2, 3, 2, 1}));
  EXPECT_EQ(PoolBytes(plan), 16384);
}

TEST(RelayMemoryPlan, FreesResultsNobodyUses) {
  Var x = Param("x", F32({6, 4}));
  Expr parts = Kernel({x}, TupleType({F32({2, 4}), F32({2, 4}), F32({2, 4})}));
  Expr u = Kernel({Field(parts, 0)}, F32({2, 4}));
  Expr sum = Kernel({u, Field(parts, 2)}, F32({2, 4}));
  MemoryPlan plan = GraphPlanMemory(MakeFunction({x}, sum));
  EXPECT_EQ(IdsOf(plan, {x, parts, u, sum}), (Ids{0, 1, 2, 3, 2, 1}));
  EXPECT_EQ(PoolBytes(plan), 192);
}

TEST(RelayMemoryPlan, GrowsBlocksUpToSixteenfold) {
  for (int64_t n : {19, 20}) {
    Var x = Param("x", F32({1}));
    Expr a = Kernel({x}, F32({1})), b = Kernel({a}, F32({n})), c = Kernel({b}, F32({n}));
    MemoryPlan plan = GraphPlanMemory(MakeFunction({x}, c));
    EXPECT_EQ(IdOf(plan, c), n == 19 ? 1 : 3) << n;
  }
}

TEST(RelayMemoryPlan, ShrinksBlocksUpToSixteenfold) {
  for (int64_t n : {16, 17}) {
    Var x = Param("x", F32({n}));
    Expr a = Kernel({x}, F32({n})), b = Kernel({a}, F32({1})), c = Kernel({b}, F32({1}));
    MemoryPlan plan = GraphPlanMemory(MakeFunction({x}, c));
    EXPECT_EQ(IdOf(plan, c), n == 16 ? 1 : 3) << n;
  }
}

TEST(RelayMemoryPlan, CountsElementsOfAnyType) {
  Var x = Param("x", TensorType(std::vector<int64_t>{10}, DataType::Int(8)));
  Expr a = Kernel({x}, TensorType(std::vector<int64_t>{10}, DataType::Float(16)));
  Expr b = Kernel({a}, TensorType(std::vector<int64_t>{10}, DataType::Bool()));
  Expr c = Kernel({b}, TensorType(std::vector<int64_t>{10}, DataType::Int(64)));
  MemoryPlan plan = GraphPlanMemory(MakeFunction({x}, c));
  EXPECT_EQ(IdsOf(plan, {x, a, b, c}), (Ids{0, 1, 2, 1}));
  EXPECT_EQ(PoolBytes(plan), 100);
}

TEST(RelayMemoryPlan, TakesTheBestFit) {
  Var x = Param("x", F32({64}));
  Expr a = Kernel({x}, F32({64})), b = Kernel({x}, F32({16}));
  Expr c = Kernel({a, b}, F32({4})), d = Kernel({c}, F32({16})), e = Kernel({d}, F32({64}));
  MemoryPlan plan = GraphPlanMemory(MakeFunction({x}, e));
  EXPECT_EQ(IdsOf(plan, {x, a, b, c, d, e}), (Ids{0, 1, 2, 3, 2, 1}));
  EXPECT_EQ(PoolBytes(plan), 592);
}

TEST(RelayMemoryPlan, ConstantsOwnTheirStorage) {
  Var x = Param("x", F32({8}));
  Constant k = Zeros({8});
  Expr a = Kernel({x, k}, F32({8})), b = Kernel({a}, F32({8})), c = Kernel({b, k}, F32({8}));
  Expr d = Kernel({c}, F32({8}));
  MemoryPlan plan = GraphPlanMemory(MakeFunction({x}, d));
  EXPECT_EQ(IdsOf(plan, {x, k, a, b, c, d}), (Ids{0, 1, 2, 3, 2, 3}));
}

TEST(RelayMemoryPlan, LetIsAnotherName) {
  Var x = Param("x", F32({8})), v = Param("v", F32({8}));
  Expr a = Kernel({x}, F32({8}));
  Expr b = Kernel({v}, F32({8}));
  MemoryPlan plan = GraphPlanMemory(MakeFunction({x}, Typed(Let(v, a, b), F32({8}))));
  EXPECT_EQ(IdOf(plan, v), IdOf(plan, a));
}

TEST(MemoryPlanErrors, ControlFlowIsRefused) {
  Var x = Param("x", F32({8})), c = Param("c", TensorType::Scalar(DataType::Bool()));
  Expr branch = Typed(relay::If(c, x, x), F32({8}));
  EXPECT_THROW(GraphPlanMemory(MakeFunction({x, c}, branch)), Error);
}

TEST(MemoryPlanErrors, UnknownSizeIsRefused) {
  Var x = Param("x", TensorType({AnyDim()}, DataType::Float(32)));
  EXPECT_THROW(GraphPlanMemory(MakeFunction({x}, x)), ShapeError);
}

TEST(ArenaMemoryPlan, ElementWiseWritesInPlace) {
  Var x = Param("x", F32({16}));
  Expr a = Kernel({x}, F32({16}));
  Expr b = Kernel({a}, F32({16}), OpPatternKind::kElemWise);
  MemoryPlan plan = GraphPlanMemory(MakeFunction({x}, b), MemoryPlanner::kArena);
  EXPECT_EQ(plan.at(a).offsets, plan.at(b).offsets);
  EXPECT_EQ(IdOf(plan, a), IdOf(plan, b));
  EXPECT_NE(IdOf(plan, x), IdOf(plan, a));
  EXPECT_EQ(PoolBytes(plan), 128);
}

TEST(ArenaMemoryPlan, BroadcastOperandIsNotOverwritten) {
  Var x = Param("x", F32({4, 4})), y = Param("y", F32({4}));
  Expr a = Kernel({y}, F32({4}));
  Expr b = Kernel({x, a}, F32({4, 4}), OpPatternKind::kBroadcast);
  MemoryPlan plan = GraphPlanMemory(MakeFunction({x, y}, b), MemoryPlanner::kArena);
  EXPECT_NE(plan.at(a).offsets, plan.at(b).offsets);
}

TEST(ArenaMemoryPlan, ParametersAreNotOverwritten) {
  Var x = Param("x", F32({16}));
  Expr a = Kernel({x}, F32({16}), OpPatternKind::kElemWise);
  MemoryPlan plan = GraphPlanMemory(MakeFunction({x}, a), MemoryPlanner::kArena);
  EXPECT_NE(IdOf(plan, x), IdOf(plan, a));
}

/// A random program of kernels over tensors of random sizes.
Function RandomProgram(uint32_t seed, int size) {
  std::mt19937 random(seed);
  auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  Array<Var> params;
  std::vector<Expr> values;
  for (int i = 0; i < 3; ++i) {
    params.push_back(Param("x" + std::to_string(i), F32({1 + pick(100)})));
    values.push_back(params.back());
  }
  for (int i = 0; i < size; ++i) {
    Array<Expr> args;
    for (int k = 1 + pick(3); k > 0; --k)
      args.push_back(values[values.size() - 1 - pick(std::min<int>(8, values.size()))]);
    if (pick(3) == 0) {
      values.push_back(Kernel({args[0]}, args[0]->checked_type(), OpPatternKind::kElemWise));
    } else if (pick(6) == 0) {
      values.push_back(Kernel({args[0]}, args[0]->checked_type(), OpPatternKind::kInjective, true));
    } else {
      values.push_back(Kernel(args, F32({1 + pick(1000)})));
    }
  }
  return MakeFunction(params, Fields({values[values.size() - 1], values[values.size() - 2]}));
}

/// Runs the steps on a picture of the memory that holds, per byte range, the tensor written last: each operand must
/// still be there when it is read.
void CheckNoOverwrite(const MemoryProgram& program, const std::vector<TensorPlace>& places) {
  std::map<int64_t, std::map<int64_t, std::pair<int64_t, int>>> memory;  // storage -> offset -> (end, tensor)
  std::vector<int> root(program.tensors.size());
  for (size_t i = 0; i < root.size(); ++i) {
    root[i] = program.tensors[i].alias_of >= 0 ? root[program.tensors[i].alias_of] : static_cast<int>(i);
  }
  auto write = [&](int id) {
    auto& ranges = memory[places[id].storage_id];
    int64_t begin = places[id].offset, end = begin + program.tensors[id].bytes;
    for (auto it = ranges.begin(); it != ranges.end();) {
      it = it->first < end && begin < it->second.first ? ranges.erase(it) : std::next(it);
    }
    ranges[begin] = {end, id};
  };
  auto holds = [&](int id) {
    auto it = memory[places[id].storage_id].find(places[id].offset);
    return it != memory[places[id].storage_id].end() && it->second.second == root[id];
  };
  for (size_t i = 0; i < program.num_params; ++i) write(static_cast<int>(i));
  for (const PlannedStep& step : program.steps) {
    for (int id : step.inputs) EXPECT_TRUE(holds(id)) << "operand was overwritten";
    for (int id : step.outputs) {
      if (root[id] == id) write(id);
    }
    for (int id : step.outputs) EXPECT_TRUE(holds(id)) << "results overlap";
    for (int id : step.inputs) {
      bool in_place = step.outputs.size() == 1 && places[id].storage_id == places[step.outputs[0]].storage_id &&
                      places[id].offset == places[step.outputs[0]].offset;
      if (!in_place && program.tensors[id].last_use >= 0) {
        EXPECT_TRUE(holds(id)) << "operand and result overlap";
      }
    }
  }
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    if (program.tensors[i].last_use == static_cast<int>(program.steps.size())) {
      EXPECT_TRUE(holds(static_cast<int>(i)));
    }
  }
}

TEST(ArenaMemoryPlan, RandomProgramsKeepTheirOperands) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    MemoryProgram program = LinearizeForMemory(RandomProgram(seed, 40));
    CheckNoOverwrite(program, PlanArena(program));
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(ArenaMemoryPlan, NeedsNoMoreThanRelaysPlanner) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    Function func = RandomProgram(seed, 60);
    int64_t relay = PoolBytes(GraphPlanMemory(func)), arena = PoolBytes(GraphPlanMemory(func, MemoryPlanner::kArena));
    int64_t padding = 0;
    for (const PlannedTensor& tensor : LinearizeForMemory(func).tensors) padding += tensor.persistent ? 0 : 64;
    EXPECT_LE(arena, relay + padding) << seed;
  }
}

TEST(MemoryPlan, DeepChain) {
  Var x = Param("x", F32({4}));
  Expr e = x;
  for (int i = 0; i < 200000; ++i) e = Kernel({e}, F32({4}));
  EXPECT_EQ(StorageSizes(GraphPlanMemory(MakeFunction({x}, e))).size(), 3u);
  EXPECT_EQ(StorageSizes(GraphPlanMemory(MakeFunction({x}, e), MemoryPlanner::kArena)).size(), 2u);
}

}  // namespace
}  // namespace treadle::driver
