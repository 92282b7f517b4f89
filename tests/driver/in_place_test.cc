// SPDX-License-Identifier: Apache-2.0
// Joins and splits that move nothing.
#include <random>

#include "driver/memory/memory_arena.h"
#include "driver/memory/memory_plan.h"
#include "passes/pass_test.h"
#include "treadle/driver/compile.h"

namespace treadle::driver {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)
using relay::Function;

Function Fused(const std::string& text) {
  IRModule fused = relay::transform::FuseOps(1)(Parse(text));
  return Downcast<Function>(relay::InferTypes(fused)->Lookup("main"));
}

int CountInPlace(const Function& main) {
  int count = 0;
  for (const auto& [expr, info] : GraphPlanMemory(main, MemoryPlanner::kArena)) count += info.moves_nothing ? 1 : 0;
  return count;
}

TEST(InPlace, JoinAlongTheOutermostDimension) {
  Function main = Fused(R"(fn (%x: Tensor[(1, 16, 8), float32], %w: Tensor[(8, 8), float32]) {
    %0 = nn.batch_matmul(%x, %x);
    %1 = nn.batch_matmul(%0, %0);
    %2 = concatenate((%0, %1), axis=1);
    nn.batch_matmul(%2, %2) })");
  EXPECT_EQ(CountInPlace(main), 1);
}

TEST(InPlace, JoinAlongAnInnerDimensionMoves) {
  Function main = Fused(R"(fn (%x: Tensor[(2, 16, 16), float32]) {
    %0 = nn.batch_matmul(%x, %x);
    %1 = nn.batch_matmul(%0, %0);
    %2 = concatenate((%0, %1), axis=1);
    nn.batch_matmul(%2, %2) })");
  EXPECT_EQ(CountInPlace(main), 0);
}

TEST(InPlace, PiecesThatWouldNotBeAlignedMove) {
  Function main = Fused(R"(fn (%x: Tensor[(1, 3, 5), float32]) {
    %0 = nn.batch_matmul(%x, %x);
    %1 = nn.batch_matmul(%x, %x);
    %2 = concatenate((%0, %1), axis=1);
    nn.batch_matmul(%2, %2) })");
  EXPECT_EQ(CountInPlace(main), 0);
}

TEST(InPlace, InputsAreNotPieces) {
  Function main = Fused(R"(fn (%x: Tensor[(1, 16, 16), float32]) {
    %0 = nn.batch_matmul(%x, %x);
    %1 = concatenate((%0, %x), axis=1);
    nn.batch_matmul(%1, %1) })");
  EXPECT_EQ(CountInPlace(main), 0);
}

TEST(InPlace, SplitAlongTheOutermostDimension) {
  Function main = Fused(R"(fn (%x: Tensor[(1, 32, 32), float32]) {
    %0 = nn.batch_matmul(%x, %x);
    %1 = split(%0, indices_or_sections=2, axis=1);
    %2 = %1.0;
    %3 = %1.1;
    nn.batch_matmul(%2, %3) })");
  EXPECT_EQ(CountInPlace(main), 1);
}

/// Values of tensors are symbols; each step writes new ones and checks those that it reads.
void CheckValues(const MemoryProgram& program, const std::vector<TensorPlace>& places) {
  std::map<std::pair<int64_t, int64_t>, std::pair<int, int64_t>> bytes;  // (storage, block of 64) -> (tensor, block)
  auto blocks = [&](int id, auto visit) {
    for (int64_t b = 0; b < (program.tensors[id].bytes + 63) / 64; ++b) {
      visit(std::make_pair(places[id].storage_id, places[id].offset / 64 + b), b);
    }
  };
  std::vector<std::vector<std::pair<int, int64_t>>> value(program.tensors.size());
  auto write = [&](int id) {
    blocks(id, [&](auto at, int64_t b) {
      bytes[at] = {id, b};
      value[id].emplace_back(id, b);
    });
  };
  auto read = [&](int id) {
    blocks(id, [&](auto at, int64_t b) { EXPECT_EQ(bytes[at], value[id][static_cast<size_t>(b)]) << "tensor " << id; });
  };
  for (size_t i = 0; i < program.num_params; ++i) write(static_cast<int>(i));
  for (const PlannedStep& step : program.steps) {
    for (int id : step.inputs) read(id);
    const bool in_place = step.call != nullptr && IsInPlace(program, step, places);
    for (int id : step.outputs) {
      if (program.tensors[id].alias_of >= 0) {
        value[id] = value[program.tensors[id].alias_of];
      } else if (in_place) {
        blocks(id, [&](auto at, int64_t) { value[id].push_back(bytes[at]); });
      } else {
        write(id);
      }
    }
  }
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    if (program.tensors[i].last_use == static_cast<int>(program.steps.size())) read(static_cast<int>(i));
  }
}

TEST(InPlace, RandomProgramsKeepTheirValues) {
  int in_place = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    std::string text = "fn (%x: Tensor[(1, 16, 16), float32]) {\n";
    std::vector<std::pair<std::string, int>> values{{"%x", 16}};  // name, rows
    for (int i = 0; i < 14; ++i) {
      auto [a, rows] = values[values.size() - 1 - pick(std::min<size_t>(4, values.size()))];
      auto [b, rows_b] = values[values.size() - 1 - pick(std::min<size_t>(4, values.size()))];
      const std::string name = "%v" + std::to_string(i);
      const size_t kind = pick(4);
      if (kind == 0) {
        text += "let " + name + " = concatenate((" + a + ", " + b + "), axis=1);\n";
        values.emplace_back(name, rows + rows_b);
      } else if (kind == 1 && rows % 32 == 0) {
        text += "let " + name + " = split(" + a + ", indices_or_sections=2, axis=1);\n";
        text += "let " + name + "a = " + name + ".0;\nlet " + name + "b = " + name + ".1;\n";
        values.emplace_back(name + "a", rows / 2);
        values.emplace_back(name + "b", rows / 2);
      } else if (kind == 2) {
        text += "let " + name + " = exp(" + a + ");\n";
        values.emplace_back(name, rows);
      } else {
        text += "let " + name + " = cumsum(" + a + ", axis=1);\n";
        values.emplace_back(name, rows);
      }
    }
    text += "(" + values[values.size() - 1].first + ", " + values[values.size() - 2].first + ") }";
    IRModule module = Parse(text);
    module = relay::InferTypes(relay::transform::FuseOps(0)(relay::transform::ToGraphNormalForm()(module)));
    MemoryProgram program = LinearizeForMemory(Downcast<Function>(module->Lookup("main")));
    std::vector<TensorPlace> places = PlanArena(program);
    for (const PlannedStep& step : program.steps) {
      in_place += step.call != nullptr && IsInPlace(program, step, places) ? 1 : 0;
    }
    CheckValues(program, places);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << text;
  }
  EXPECT_GT(in_place, 50);
}

}  // namespace
}  // namespace treadle::driver
