// SPDX-License-Identifier: Apache-2.0
// Branches that run side by side: which ones, their memory, their results.
#include "driver/graph/branches.h"

#include <gmock/gmock.h>

#include "driver/memory/memory_plan.h"
#include "passes/pass_test.h"
#include "treadle/base/json.h"
#include "treadle/driver/compile.h"
#include "treadle/runtime/graph_executor.h"

namespace treadle::driver {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

/// `towers` chains of `depth` products of a row with small matrices, which are summed.
std::string Towers(int towers, int depth) {
  std::string text = "fn (%x: Tensor[(1, 64), float32], %w: Tensor[(64, 64), float32]) {\n";
  int next = 0;
  std::vector<std::string> ends;
  for (int t = 0; t < towers; ++t) {
    text += StrCat("  %", next, " = multiply(%x, ", t + 1, "f);\n");
    std::string value = StrCat("%", next++);
    for (int d = 0; d < depth; ++d) {
      text += StrCat("  %", next, " = nn.dense(", value, ", %w);\n  %", next + 1, " = tanh(%", next, ");\n");
      value = StrCat("%", next + 1);
      next += 2;
    }
    ends.push_back(value);
  }
  std::string sum = ends[0];
  for (size_t t = 1; t < ends.size(); ++t) {
    text += StrCat("  %", next, " = add(", sum, ", ", ends[t], ");\n");
    sum = StrCat("%", next++);
  }
  return text + "  " + sum + "\n}";
}

MemoryProgram ProgramOf(const std::string& text) {
  const IRModule fused = relay::transform::FuseOps(1)(Parse(text));
  return LinearizeForMemory(Downcast<relay::Function>(relay::InferTypes(fused)->Lookup("main")));
}

std::vector<StepCost> Costs(const MemoryProgram& program, double cycles, bool parallel = false) {
  return std::vector<StepCost>(program.steps.size(), StepCost{cycles, parallel});
}

TEST(Branches, IndependentChainsOfSmallKernels) {
  const MemoryProgram program = ProgramOf(Towers(3, 4));
  const auto stages = FindBranchStages(program, Costs(program, 10000), 4);
  ASSERT_EQ(stages.size(), 1u);
  EXPECT_GE(stages[0].end - stages[0].begin, 11);  // the sums may be part of the last chain
  EXPECT_EQ(*std::max_element(stages[0].branch_of.begin(), stages[0].branch_of.end()), 2);
}

TEST(Branches, NotWhereNothingIsGained) {
  const MemoryProgram program = ProgramOf(Towers(3, 4));
  EXPECT_TRUE(FindBranchStages(program, Costs(program, 10000), 1).empty());      // one core
  EXPECT_TRUE(FindBranchStages(program, Costs(program, 500), 4).empty());        // less than a fork and join
  EXPECT_TRUE(FindBranchStages(program, Costs(program, 1e7, true), 2).empty());  // kernels use all cores themselves
  const MemoryProgram chain = ProgramOf(Towers(1, 8));
  EXPECT_TRUE(FindBranchStages(chain, Costs(chain, 10000), 4).empty());
}

TEST(Branches, TensorsKeepTheirMemoryWhileAStageRuns) {
  MemoryProgram program = ProgramOf(Towers(2, 6));
  const auto stages = FindBranchStages(program, Costs(program, 10000), 2);
  ASSERT_EQ(stages.size(), 1u);
  KeepThroughStages(stages, &program);
  const MemoryPlan plan = PlanMemory(program, MemoryPlanner::kArena, kDLCPU, {});
  const auto place = [&](int step) {
    const auto& info = plan.at(GetRef<relay::Expr>(program.steps[static_cast<size_t>(step)].call));
    return std::pair(info.storage_ids[0], info.offsets[0]);
  };
  for (int a = stages[0].begin; a < stages[0].end; ++a) {
    for (int b = a + 1; b < stages[0].end; ++b) EXPECT_NE(place(a), place(b));
  }
}

CompileOptions FourCores(bool branches) {
  CompileOptions options;
  options.target = "llvm -num-cores=4";
  options.use_cache = false;
  options.config[kParallelBranches] = branches ? "1" : "0";
  return options;
}

TEST(Branches, ResultsAreThoseOfOneStepAfterAnother) {
  std::vector<NDArray> results;
  NDArray x = NDArray::Empty({1, 64}, DataType::Float(32)), w = NDArray::Empty({64, 64}, DataType::Float(32));
  for (int i = 0; i < 64; ++i) x.Data<float>()[i] = 0.01F * static_cast<float>(i);
  for (int i = 0; i < 64 * 64; ++i) w.Data<float>()[i] = 0.02F * static_cast<float>(i % 11 - 5);
  for (const bool branches : {true, false}) {
    const CompiledModel model = Build(Parse(Towers(4, 12)), {}, FourCores(branches));
    EXPECT_EQ(model.graph_json.find("\"branch\"") != std::string::npos, branches);
    auto graph =
        std::make_shared<runtime::GraphModel>(runtime::GraphSpec::FromJson(model.graph_json), model.library,
                                              std::vector<runtime::Device>{runtime::Cpu()}, runtime::ParamList{});
    runtime::GraphContext context(graph);
    context.SetThreads(2);
    context.SetInput("x", x);
    context.SetInput("w", w);
    for (int run = 0; run < 20; ++run) context.Run();
    results.push_back(context.GetOutput(0).Copy());
  }
  EXPECT_EQ(std::memcmp(results[0].data_ptr(), results[1].data_ptr(), 64 * sizeof(float)), 0);
}

TEST(Branches, GraphsWhoseBranchesShareMemoryAreRefused) {
  const CompiledModel model = Build(Parse(Towers(4, 12)), {}, FourCores(true));
  auto graph = Json::parse(model.graph_json);
  auto& offsets = graph["attrs"]["storage_offset"][1];
  for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = offsets[i].get<int64_t>() < 0 ? -1 : 0;
  const auto load = [&] {
    return runtime::GraphModel(runtime::GraphSpec::FromJson(graph.dump()), model.library, {runtime::Cpu()}, {});
  };
  try {
    load();
    FAIL();
  } catch (const ModelFormatError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("of another branch"));
  }
  for (size_t i = 0; i < graph["nodes"].size(); ++i) {
    Json& node = graph["nodes"][i];
    if (node.contains("attrs") && node["attrs"].contains("branch")) node["attrs"]["branch"] = "1.x";
  }
  EXPECT_THROW(load(), ModelFormatError);
}

}  // namespace
}  // namespace treadle::driver
