// SPDX-License-Identifier: Apache-2.0
// Which kernels cost models prefer for layers that networks have, on several machines, and the spaces of their plans.
#include "targets/cpu/kernels/kernels.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/accuracy.h"
#include "ops/conv.h"
#include "targets/cpu/kernels/matmul_plan.h"
#include "targets/cpu/kernels/winograd_transform.h"
#include "targets/cpu/machine_costs.h"
#include "treadle/ir/transform.h"

namespace treadle::ops::cpu {
namespace {

using schedule::Candidate;
using schedule::Choice;

Machine MachineFor(const std::string& name) {
  const std::string x86 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=";
  if (name == "avx2") return MachineOf(Target(x86 + "x86-64-v3 -num-cores=1"));
  if (name == "avx512") return MachineOf(Target(x86 + "x86-64-v4 -num-cores=1"));
  if (name == "amx") return MachineOf(Target(x86 + "sapphirerapids -num-cores=1"));
  return MachineOf(Target("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-n1 -num-cores=1"));
}

/// A convolution of square images, padded to keep their size, on blocks of 16 channels.
Problem Conv(int64_t ic, int64_t size, int64_t oc, int64_t kernel, int64_t stride = 1) {
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    p.ic = ic;
    p.oc = oc;
    p.ih = p.iw = size;
    p.oh = p.ow = size < 0 ? size : (size + stride - 1) / stride;
    p.kh = p.kw = kernel;
    p.stride_h = p.stride_w = stride;
    p.pad_t = p.pad_l = p.pad_b = p.pad_r = kernel / 2;
    p.ic_block = p.oc_block = 16;
    p.in_layout = p.out_layout = {16};
  });
}

/// Names of the kernels that can be used, the chosen one first.
std::vector<std::string> Usable(const Problem& problem, const std::string& machine) {
  RegisterKernels();
  std::vector<std::string> names;
  for (const Candidate& c : ChooseKernel("nn.conv2d", "cpu", problem, MachineFor(machine)).candidates) {
    if (c.why_not.empty()) names.push_back(c.kernel->name);
  }
  return names;
}

std::string WhyNot(const Problem& problem, const std::string& kernel) {
  RegisterKernels();
  for (const Candidate& c : ChooseKernel("nn.conv2d", "cpu", problem, MachineFor("avx2")).candidates) {
    if (c.kernel->name == kernel) return c.why_not;
  }
  return "no such kernel";
}

class EveryMachine : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Machines, EveryMachine, testing::Values("avx2", "avx512", "amx", "neon"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EveryMachine, LargeWindowsOfManyChannelsAreWinogradsThenDirect) {
  const std::vector<std::string> order{"conv2d.winograd", "conv2d.direct", "conv2d.plain"};
  EXPECT_EQ(Usable(Conv(64, 56, 64, 3), GetParam()), order);
  EXPECT_EQ(Usable(Conv(128, 28, 128, 3), GetParam()), order);
  EXPECT_EQ(Usable(Conv(256, 14, 256, 3), GetParam()), order);
}

TEST_P(EveryMachine, SixteenChannelsOfImagesOfAnySizeAreWinograds) {
  EXPECT_EQ(Usable(Conv(16, -1, 32, 3), GetParam()).front(), "conv2d.winograd");
}

TEST_P(EveryMachine, PointwiseConvolutionsAreDirect) {
  EXPECT_EQ(Usable(Conv(64, 56, 256, 1), GetParam()).front(), "conv2d.direct");
  EXPECT_EQ(Usable(Conv(512, 14, 1024, 1), GetParam()).front(), "conv2d.direct");
}

TEST_P(EveryMachine, OnePixelIsDirect) {
  // All the weights of a transform for one output.
  EXPECT_EQ(Usable(Conv(512, 1, 512, 3), GetParam()).front(), "conv2d.direct");
}

TEST_P(EveryMachine, EveryPlanOfASpaceIsAccepted) {
  RegisterKernels();
  const Machine machine = MachineFor(GetParam());
  for (const Problem& problem : {Conv(64, 56, 64, 3), Conv(48, 30, 80, 3, 2), Conv(1024, 14, 256, 1)}) {
    for (const schedule::Kernel* kernel : schedule::KernelsOf("nn.conv2d", "cpu")) {
      if (!kernel->why_not || !kernel->why_not(problem, machine).empty() || !kernel->space) continue;
      for (const Plan& plan : kernel->space(problem, machine)) {
        EXPECT_EQ(kernel->why_not_plan(problem, machine, plan), "") << kernel->name << " " << ToJson(plan);
        EXPECT_EQ(ToJson(schedule::PlanFromJson(ToJson(plan))), ToJson(plan));
      }
    }
  }
}

/// As a graph states it: blocks are open.
Problem Grouped(int64_t groups, int64_t ic, int64_t size, int64_t oc, int64_t kernel) {
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    p.groups = groups;
    p.ic = ic;
    p.oc = oc;
    p.ih = p.iw = p.oh = p.ow = size;
    p.kh = p.kw = kernel;
    p.pad_t = p.pad_l = p.pad_b = p.pad_r = kernel / 2;
  });
}

Problem Transposed(int64_t ic, int64_t size, int64_t oc, int64_t kernel, int64_t stride) {
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    p.ic = ic;
    p.oc = oc;
    p.ih = p.iw = size;
    p.oh = p.ow = (size - 1) * stride + kernel;
    p.kh = p.kw = kernel;
    p.stride_h = p.stride_w = stride;
  });
}

/// A product with a packed right operand, as loops see it.
Problem Product(int64_t m, int64_t k, int64_t n, bool packs_b = false) {
  return Make<Problem, MatmulProblemNode>([&](auto& p) {
    p.m = m;
    p.k = k;
    p.n = n;
    p.n_block = 16;
    p.packs_b = packs_b;
  });
}

/// The same as a call states it.
Problem Dense(int64_t m, int64_t k, int64_t n, bool constant) {
  return Make<Problem, MatmulProblemNode>([&](auto& p) {
    p.m = m;
    p.k = k;
    p.n = n;
    p.transpose_b = true;
    p.constant_b = constant;
  });
}

Problem Depthwise(int64_t channels, int64_t size, int64_t kernel) {
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    p.ic = p.oc = p.groups = channels;
    p.ih = p.iw = p.oh = p.ow = size;
    p.kh = p.kw = kernel;
    p.pad_t = p.pad_l = p.pad_b = p.pad_r = kernel / 2;
    p.ic_block = p.oc_block = 16;
    p.in_layout = p.out_layout = {16};
  });
}

/// The same of bytes, as a graph states it: blocks are open.
Problem OfBytes(const Problem& problem) {
  auto node = MakeObject<ConvProblemNode>(*problem.as<ConvProblemNode>());
  node->dtype = DataType::UInt(8);
  node->weight_dtype = DataType::Int(8);
  node->out_dtype = DataType::Int(32);
  node->in_layout = {};
  node->ic_block = node->oc_block = 0;
  return Problem(ObjectPtr<Object>(node));
}

std::vector<std::string> UsableFor(const std::string& op, const Problem& problem, const std::string& machine) {
  RegisterKernels();
  std::vector<std::string> names;
  for (const Candidate& c : ChooseKernel(op, "cpu", problem, MachineFor(machine)).candidates) {
    if (c.why_not.empty()) names.push_back(c.kernel->name);
  }
  return names;
}

/// Value of a field of a kernel's best plan, an integer or bool.
int64_t BestField(const char* kernel, const Problem& problem, const std::string& machine, const std::string& field) {
  RegisterKernels();
  const Candidate best = DefaultPlan(*schedule::FindKernel(kernel), problem, MachineFor(machine));
  const std::string text = ToJson(best.plan), key = "\"" + field + "\":";
  const std::string value = text.substr(text.find(key) + key.size());
  return value.starts_with("true") ? 1 : value.starts_with("false") ? 0 : std::stoll(value);
}

TEST_P(EveryMachine, ProductsWithConstantsArePackedThenPlain) {
  const std::vector<std::string> order{"dense.packed", "dense.plain"}, plain{"dense.plain"};
  EXPECT_EQ(UsableFor("nn.dense", Dense(1, 1024, 1000, true), GetParam()), order);
  EXPECT_EQ(UsableFor("nn.dense", Dense(128, 768, 768, true), GetParam()), order);
  EXPECT_EQ(UsableFor("nn.dense", Dense(128, 768, 768, false), GetParam()), order);
  EXPECT_EQ(UsableFor("nn.dense", Dense(2, 768, 768, false), GetParam()), plain);
}

TEST_P(EveryMachine, ProductsOfWordsHaveTheirOwnKernels) {
  auto usable = [&](DataType data, DataType weight, DataType out) {
    const Problem problem = Make<Problem, MatmulProblemNode>([&](auto& p) {
      p.m = 64;
      p.k = 200;
      p.n = 48;
      p.dtype = data;
      p.weight_dtype = weight;
      p.out_dtype = out;
      p.constant_b = true;
    });
    return UsableFor("nn.matmul", problem, GetParam());
  };
  using Names = std::vector<std::string>;
  const DataType half = DataType::BFloat(16), word = DataType::Int(32), number = DataType::Float(32);
  const bool tiles = std::string_view(GetParam()) == "amx";
  auto before = [&](Names rest) {
    if (tiles) rest.insert(rest.begin(), "matmul.tiles");
    return rest;
  };
  EXPECT_EQ(usable(DataType::UInt(8), DataType::Int(8), word), before({"matmul.bytes", "matmul.plain"}));
  EXPECT_EQ(usable(DataType::Int(16), DataType::Int(16), word), (Names{"matmul.bytes", "matmul.plain"}));
  EXPECT_EQ(usable(half, half, number), before({"matmul.pairs", "matmul.plain"}));
  EXPECT_EQ(usable(number, half, number), (Names{"matmul.packed", "matmul.plain"}));
  EXPECT_EQ(usable(DataType::Int(8), DataType::Int(8), word), Names{"matmul.plain"});
}

TEST(Tiles, OfBlocksOfRowsThoseCountThatAreThere) {
  for (const int64_t m : {15, 17, 24, 40}) {
    const Problem problem = Make<Problem, MatmulProblemNode>([&](auto& p) {
      p.m = m;
      p.k = p.n = 768;
      p.dtype = DataType::UInt(8);
      p.weight_dtype = DataType::Int(8);
      p.out_dtype = DataType::Int(32);
      p.constant_b = true;
    });
    EXPECT_EQ(UsableFor("nn.matmul", problem, "amx").front(), "matmul.tiles") << m;
  }
}

TEST_P(EveryMachine, DepthwiseConvolutionsHaveTheirOwnKernel) {
  const std::vector<std::string> order{"conv2d.depthwise", "conv2d.plain"};
  EXPECT_EQ(UsableFor("nn.conv2d", Depthwise(96, 56, 3), GetParam()), order);
  EXPECT_EQ(UsableFor("nn.conv2d", Depthwise(960, 7, 5), GetParam()), order);
}

TEST_P(EveryMachine, GroupedConvolutionsHaveTheirOwnKernel) {
  const std::vector<std::string> order{"conv2d.grouped", "conv2d.plain"};
  EXPECT_EQ(UsableFor("nn.conv2d", Grouped(32, 256, 56, 256, 3), GetParam()), order);
  EXPECT_EQ(UsableFor("nn.conv2d", Grouped(32, 128, 56, 128, 3), GetParam()), order);
  EXPECT_EQ(UsableFor("nn.conv2d", Grouped(2, 96, 28, 96, 5), GetParam()), order);
  // Groups of 3 have no whole blocks, however many become one.
  EXPECT_EQ(UsableFor("nn.conv2d", Grouped(3, 9, 28, 9, 3), GetParam()), std::vector<std::string>{"conv2d.plain"});
}

TEST_P(EveryMachine, ConvolutionsOfBytesHaveTheirOwnKernels) {
  const std::vector<std::string> direct{"qnn_conv2d.direct", "qnn_conv2d.plain"};
  const std::vector<std::string> tiles{"qnn_conv2d.tiles", "qnn_conv2d.direct", "qnn_conv2d.plain"};
  const bool has_tiles = std::string_view(GetParam()) == "amx";
  for (const Problem& problem : {Conv(64, 56, 64, 3), Conv(256, 14, 1024, 1), Conv(512, 7, 512, 3),
                                 Conv(128, 56, 128, 3, 2), Grouped(32, 256, 56, 256, 3)}) {
    EXPECT_EQ(UsableFor("qnn.contrib_conv2d", OfBytes(problem), GetParam()), has_tiles ? tiles : direct);
  }
  const std::vector<std::string> depthwise{"qnn_conv2d.depthwise", "qnn_conv2d.plain"};
  EXPECT_EQ(UsableFor("qnn.contrib_conv2d", OfBytes(Depthwise(96, 56, 3)), GetParam()), depthwise);
  // Of three channels of plain data a word is made.
  EXPECT_EQ(BestField("qnn_conv2d.direct", OfBytes(Conv(3, 224, 64, 7, 2)), GetParam(), "ic_block"), 4);
}

TEST_P(EveryMachine, WordsOfOneChannelAreOfRowsWhereBytesAreWidened) {
  const bool widens = !MachineFor(GetParam()).vnni;
  const Problem square = OfBytes(Depthwise(96, 56, 3));
  EXPECT_EQ(BestField("qnn_conv2d.depthwise", square, GetParam(), "of_rows"), widens ? 1 : 0);
  const schedule::Kernel& kernel = *schedule::FindKernel("qnn_conv2d.depthwise");
  const Machine machine = MachineFor("avx2");
  const Plan of_rows = DefaultPlan(kernel, square, machine).plan;
  EXPECT_EQ(kernel.why_not_plan(square, machine, of_rows), "");
  EXPECT_EQ(kernel.why_not_plan(OfBytes(Depthwise(96, 56, 1)), machine, of_rows), "the window has one row");
}

TEST(Tiles, PlansOfConvolutionsAreThoseOfTheirSpace) {
  RegisterKernels();
  const schedule::Kernel& kernel = *schedule::FindKernel("qnn_conv2d.tiles");
  const Machine machine = MachineFor("amx");
  auto why_not = [&](const Problem& problem) { return kernel.why_not(OfBytes(problem), machine); };
  EXPECT_EQ(kernel.why_not(OfBytes(Conv(64, 56, 64, 3)), MachineFor("avx512")), "no tile registers");
  EXPECT_EQ(why_not(Conv(3, 224, 64, 7, 2)), "");
  EXPECT_EQ(BestField("qnn_conv2d.tiles", OfBytes(Conv(3, 224, 64, 7, 2)), "amx", "ic_block"), 4);
  EXPECT_EQ(why_not(Conv(512, 1, 512, 3)), "1 outputs");
  EXPECT_EQ(why_not(Grouped(32, 256, 56, 256, 3)), "");
  EXPECT_EQ(why_not(Grouped(3, 240, 56, 240, 3)), "");
  EXPECT_EQ(why_not(Grouped(5, 120, 28, 120, 3)), "");
  EXPECT_EQ(why_not(Grouped(3, 60, 56, 60, 3)), "3 groups don't fill tiles");
  EXPECT_EQ(why_not(Grouped(32, 64, 56, 64, 3)), "32 groups don't fill tiles");
  for (const Problem& problem :
       {Conv(64, 56, 64, 3), Conv(48, 30, 80, 3, 2), Conv(1024, 14, 256, 1), Grouped(5, 120, 28, 120, 3)}) {
    const Problem bytes = OfBytes(problem);
    ASSERT_EQ(kernel.why_not(bytes, machine), "");
    for (const Plan& plan : kernel.space(bytes, machine)) {
      EXPECT_EQ(kernel.why_not_plan(bytes, machine, plan), "") << ToJson(plan);
      EXPECT_GT(kernel.cycles(bytes, machine, plan), 0);
    }
  }
  // All panels of a strip at once: its lines are copied once whatever their number.
  EXPECT_EQ(BestField("qnn_conv2d.tiles", OfBytes(Conv(64, 56, 64, 3)), "amx", "nc"), 4);
  auto refused = [&](int64_t nc, int64_t block) {
    const std::string plan =
        StrCat(R"({"type":"schedule.TileConvPlan","ic_block":)", block, R"(,"nc":)", nc, R"(,"ahead":false})");
    return kernel.why_not_plan(OfBytes(Conv(64, 56, 96, 3)), machine, schedule::PlanFromJson(plan));
  };
  EXPECT_EQ(refused(4, 16), "4 panels don't divide 6");
  EXPECT_EQ(refused(0, 16), "0 panels don't divide 6");
  EXPECT_EQ(refused(3, 4), "blocks of 4 channels");
  const Plan part = schedule::PlanFromJson(R"({"type":"schedule.TileConvPlan","ic_block":16,"nc":1,"ahead":false})");
  EXPECT_EQ(kernel.why_not_plan(OfBytes(Grouped(5, 120, 28, 120, 3)), machine, part), "1 panels aren't a group's 2");
}

TEST_P(EveryMachine, PixelsInOneRowAreForChannelsWithoutBlocks) {
  const std::vector<std::string> row{"conv2d.flat_pointwise", "conv2d.plain"};
  // 10 channels fill too little of blocks of 8.
  EXPECT_EQ(Usable(Grouped(1, 10, 20, 10, 1), GetParam()), row);
  // Where blocks are possible, leaving them costs more.
  EXPECT_EQ(Usable(Conv(48, 13, 192, 1), GetParam()).front(), "conv2d.direct");
  RegisterKernels();
  const schedule::Kernel& flat = *schedule::FindKernel("conv2d.flat_pointwise");
  auto cycles = [&](int64_t oc) { return flat.cycles(Conv(48, 13, oc, 1), MachineFor(GetParam()), Plan()); };
  EXPECT_GT(cycles(48), 0);
  EXPECT_LT(cycles(48), cycles(96));
}

TEST_P(EveryMachine, TransposedConvolutionsAreThoseOfTheirPhases) {
  const std::vector<std::string> order{"conv2d_transpose.phases", "conv2d_transpose.plain"};
  EXPECT_EQ(UsableFor("nn.conv2d_transpose", Transposed(64, 16, 32, 2, 2), GetParam()), order);
  EXPECT_EQ(UsableFor("nn.conv2d_transpose", Transposed(32, 13, 3, 4, 2), GetParam()), order);
}

/// As the computation of nn.conv2d in NCHW states it.
Problem Rows(int64_t ic, int64_t size, int64_t oc, int64_t kernel, int64_t stride = 1, int64_t groups = 1) {
  return Make<Problem, RowConvProblemNode>([&](auto& p) {
    p.ic = ic;
    p.oc = oc;
    p.ih = p.iw = size + kernel - 1;
    p.oh = p.ow = size < 0 ? size : (size + stride - 1) / stride;
    p.kh = p.kw = kernel;
    p.stride_h = p.stride_w = stride;
    p.groups = groups;
  });
}

TEST_P(EveryMachine, PlansOfRowsAreAcceptedCostAndPrint) {
  RegisterKernels();
  const Machine machine = MachineFor(GetParam());
  const schedule::Kernel& rows = *schedule::FindKernel("conv2d.rows");
  for (const Problem& problem :
       {Rows(3, 64, 10, 3), Rows(10, 30, 10, 3, 2), Rows(10, 30, 10, 3, 1, 10), Rows(1, 5, 1, 5)}) {
    const std::vector<Plan> plans = rows.space(problem, machine);
    EXPECT_GT(plans.size(), 1U);
    std::set<std::string> texts;
    for (const Plan& plan : plans) {
      const std::string text = ToJson(plan);
      EXPECT_EQ(rows.why_not_plan(problem, machine, plan), "") << text;
      EXPECT_EQ(ToJson(schedule::PlanFromJson(text)), text);
      EXPECT_TRUE(texts.insert(text).second) << text;
      const bool sums = text.find("\"lanes\":0") != std::string::npos;  // of any kind: not modelled
      EXPECT_EQ(rows.cycles(problem, machine, plan) > 0, !sums) << text;
    }
  }
}

TEST_P(EveryMachine, RowsOfAFewOutputsAreSumsOfAnyKind) {
  EXPECT_EQ(BestField("conv2d.rows", Rows(3, 3, 10, 3), GetParam(), "lanes"), 0);
}

TEST_P(EveryMachine, TilesOfRowsFillRegistersAndKeepGroups) {
  // No rule of thumb has tiles of five.
  EXPECT_GE(BestField("conv2d.rows", Rows(3, 64, 5, 3), GetParam(), "tile_oc"), 5);
  const int64_t tile_oc = BestField("conv2d.rows", Rows(60, 16, 30, 3, 1, 6), GetParam(), "tile_oc");
  EXPECT_TRUE(5 % tile_oc == 0 || tile_oc % 5 == 0) << tile_oc;
  // What is left of a row would be computed one by one.
  EXPECT_EQ(24 % BestField("conv2d.rows", Rows(3, 24, 6, 3), GetParam(), "lanes"), 0);
}

TEST(KernelsTest, CostsOfRowsFollowTheirWork) {
  RegisterKernels();
  const schedule::Kernel& rows = *schedule::FindKernel("conv2d.rows");
  const Machine machine = MachineFor("avx2");
  auto cycles = [&](const Problem& problem, int64_t tile_oc, int64_t lanes) {
    return rows.cycles(problem, machine,
                       schedule::PlanFromJson(StrCat(R"({"type":"schedule.RowConvPlan","tile_oc":)", tile_oc,
                                                     R"(,"lanes":)", lanes, "}")));
  };
  EXPECT_LT(cycles(Rows(3, 64, 12, 3), 6, 16), cycles(Rows(6, 64, 12, 3), 6, 16));
  EXPECT_LT(cycles(Rows(3, 64, 12, 3), 6, 8), cycles(Rows(3, 64, 12, 3), 1, 8));
  // Elements that lie apart are loaded one by one.
  EXPECT_LT(cycles(Rows(3, 64, 12, 3), 1, 16), cycles(Rows(3, 128, 12, 3, 2), 1, 16));
}

TEST(KernelsTest, PlansOfRowsThatDontFitAreRefused) {
  RegisterKernels();
  const schedule::Kernel& rows = *schedule::FindKernel("conv2d.rows");
  auto reason = [&](int64_t tile_oc, int64_t lanes) {
    const std::string text =
        StrCat(R"({"type":"schedule.RowConvPlan","tile_oc":)", tile_oc, R"(,"lanes":)", lanes, "}");
    return rows.why_not_plan(Rows(3, 64, 10, 3), MachineFor("avx2"), schedule::PlanFromJson(text));
  };
  EXPECT_EQ(reason(5, 8), "");
  EXPECT_EQ(reason(3, 8), "tiles of 3 channels, of 10");
  EXPECT_EQ(reason(0, 8), "tiles of 0 channels, of 10");
  EXPECT_EQ(reason(2, 12), "vectors of 12 outputs");
  EXPECT_EQ(reason(2, 1024), "vectors of 1024 outputs");
  EXPECT_EQ(reason(2, 0), "sums of any kind have no tiles of channels");
}

TEST(KernelsTest, OtherCostsHoldForTheirScope) {
  RegisterKernels();
  const Problem problem = Product(128, 768, 768);
  const schedule::Kernel& packed = *schedule::FindKernel("matmul.packed");
  const Machine machine = MachineFor("avx2");
  const Plan plan = DefaultPlan(packed, problem, machine).plan;
  const double before = packed.cycles(problem, machine, plan);
  {
    const FittedCosts costs = FittedCostsWith(R"({"product_tile": 1000})");
    const FittedCostsScope scope(costs);
    EXPECT_GT(packed.cycles(problem, machine, plan), before);
  }
  EXPECT_EQ(packed.cycles(problem, machine, plan), before);
  EXPECT_THROW(FittedCostsWith(R"({"product_tiles": 1})"), Error);
  EXPECT_THROW(FittedCostsWith(R"({"product_tile": "1"})"), Error);
  EXPECT_THROW(FittedCostsWith("12"), Error);
}

TEST(KernelsTest, GroupsBecomeOneWhereTheyHaveNoWholeBlocks) {
  for (const char* machine : {"avx2", "avx512"}) {
    EXPECT_EQ(BestField("conv2d.grouped", Grouped(32, 256, 56, 256, 3), machine, "merged"), 1);
    EXPECT_EQ(BestField("conv2d.grouped", Grouped(32, 128, 56, 128, 3), machine, "merged"), 2);
  }
}

/// Blocks would be as many tiles whatever the number of rows: those beyond the last row are tested one by one.
TEST(KernelsTest, DynamicRowsOfAProductThatPacksHaveNoBlocks) {
  RegisterKernels();
  const Machine machine = MachineFor("avx2");
  for (const auto& [k, n] : {std::pair<int64_t, int64_t>{8, -1}, {64, -1}, {64, 128}}) {
    for (const Plan& plan : MatmulSpace(Product(-1, k, n, true), machine)) {
      EXPECT_EQ(plan.as<MatmulPlanNode>()->mc_tiles, 1) << ToJson(plan);
    }
  }
}

TEST(KernelsTest, PhasesOfFewChannelsFillVectors) {
  // 4 phases of 3 channels.
  EXPECT_EQ(BestField("conv2d_transpose.phases", Transposed(32, 13, 3, 4, 2), "avx2", "oc_block"), 8);
  // 4 phases of one channel: neighbours in a row.
  EXPECT_EQ(BestField("conv2d_transpose.phases", Transposed(64, 32, 1, 4, 2), "avx2", "oc_block"), 0);
  EXPECT_EQ(BestField("conv2d_transpose.phases", Transposed(64, 32, 1, 4, 2), "avx512", "oc_block"), 0);
  EXPECT_EQ(BestField("conv2d_transpose.phases", Transposed(64, 32, 24, 4, 2), "avx512", "oc_block"), 16);
}

TEST_P(EveryMachine, PlansOfGraphsCostAndReplay) {
  RegisterKernels();
  const Machine machine = MachineFor(GetParam());
  auto replay = [&](const char* name, const Problem& problem) {
    const schedule::Kernel& kernel = *schedule::FindKernel(name);
    const std::vector<Plan> plans = kernel.space(problem, machine);
    EXPECT_GT(plans.size(), 1U) << name;
    for (const Plan& plan : plans) {
      EXPECT_EQ(kernel.why_not_plan(problem, machine, plan), "") << ToJson(plan);
      EXPECT_GT(kernel.cycles(problem, machine, plan), 0) << ToJson(plan);
      const std::string record =
          StrCat(R"({"problem":)", ToJson(problem), R"(,"kernel":")", name, R"(","plan":)", ToJson(plan), "}");
      transform::PassContext context = transform::PassContext::Create();
      context.CopyOnWrite()->config.Set(schedule::kPlansOption, String(record));
      transform::PassContext::Scope scope(context);
      const Choice choice = ChooseKernel(kernel.op, "cpu", problem, machine);
      ASSERT_NE(choice.best(), nullptr);
      EXPECT_TRUE(choice.best()->recorded) << record;
      EXPECT_EQ(ToJson(choice.best()->plan), ToJson(plan));
    }
  };
  replay("conv2d.grouped", Grouped(32, 128, 14, 128, 3));
  replay("conv2d.grouped", Grouped(4, 64, 14, 128, 3));
  replay("conv2d_transpose.phases", Transposed(32, 13, 24, 4, 2));
  replay("qnn_conv2d.direct", OfBytes(Grouped(32, 128, 14, 128, 3)));
  replay("qnn_conv2d.direct", OfBytes(Conv(64, 28, 64, 3)));
  replay("qnn_conv2d.depthwise", OfBytes(Depthwise(96, 28, 3)));
}

TEST_P(EveryMachine, BlocksOfBytesAreTheUsualOnesWithoutARecord) {
  RegisterKernels();
  const Machine machine = MachineFor(GetParam());
  for (const Problem& problem : {OfBytes(Conv(64, 28, 64, 3)), OfBytes(Grouped(32, 128, 14, 128, 3))}) {
    const schedule::Kernel& kernel = *schedule::FindKernel("qnn_conv2d.direct");
    EXPECT_EQ(ToJson(DefaultPlan(kernel, problem, machine).plan), ToJson(kernel.space(problem, machine).front()));
  }
}

TEST_P(EveryMachine, TilesOfProductsFitRegistersAndHideLatency) {
  const Machine machine = MachineFor(GetParam());
  for (const Problem& problem : {Product(1024, 1024, 1024), Product(197, 768, 3072), Product(256, 256, 256, true)}) {
    const int64_t mr = BestField("matmul.packed", problem, GetParam(), "mr");
    const int64_t nr = BestField("matmul.packed", problem, GetParam(), "nr");
    const int64_t sums = mr * nr * std::max(1, 16 / machine.vector_lanes(32));
    EXPECT_TRUE(FitsRegisters({mr, nr}, 16, machine)) << mr << " x " << nr;
    EXPECT_GE(static_cast<double>(sums) * machine.fma_cycles, machine.fma_latency_cycles) << mr << " x " << nr;
  }
}

TEST(KernelsTest, RowsOfManyColumnsArePacked) {
  RegisterKernels();
  const schedule::Kernel& packed = *schedule::FindKernel("matmul.packed");
  const Problem wide = Product(512, 512, 4096), narrow = Product(3136, 64, 64);
  for (const char* machine : {"avx2", "avx512"}) {
    for (const Problem& problem : {wide, narrow}) {
      const std::string text = ToJson(DefaultPlan(packed, problem, MachineFor(machine)).plan);
      EXPECT_EQ(text.find("\"pack_a\":true") != std::string::npos, problem.same_as(wide)) << machine << text;
    }
  }
}

/// One core of Sapphire Rapids reads the L3 cache at a fifth of the rate of the L2 cache; its L1 cache has 12 ways.
TEST(KernelsTest, BlocksOfRowsStayInTheL2CacheWhereTheNextIsSlow) {
  RegisterKernels();
  const schedule::Kernel& packed = *schedule::FindKernel("matmul.packed");
  const Machine machine = MachineFor("amx");
  for (const int64_t k : {512, 1024}) {
    const Plan chosen = DefaultPlan(packed, Product(1500, k, 512), machine).plan;
    const auto& plan = *chosen.as<MatmulPlanNode>();
    EXPECT_FALSE(plan.pack_a) << ToJson(chosen);
    EXPECT_LE(plan.mc_tiles * plan.mr * k * 4, machine.l2_bytes / 2) << ToJson(chosen);
    EXPECT_TRUE(k != 1024 || plan.mr <= 12) << ToJson(chosen);
  }
}

/// Of a dynamic number of rows those whose elements would share sets of the cache.
TEST(KernelsTest, AnyNumberOfRowsThatShareSetsIsPacked) {
  RegisterKernels();
  const schedule::Kernel& packed = *schedule::FindKernel("matmul.packed");
  for (const int64_t k : {768, 3072}) {
    const std::string text = ToJson(DefaultPlan(packed, Product(-1, k, 768), MachineFor("avx512")).plan);
    EXPECT_EQ(text.find("\"pack_a\":true") != std::string::npos, k == 3072) << text;
  }
}

/// Blocks of rows so long that few fit the L2 cache would each read the weight again.
TEST(KernelsTest, AnyNumberOfLongRowsIsSummedInChunks) {
  RegisterKernels();
  const schedule::Kernel& packed = *schedule::FindKernel("matmul.packed");
  const Machine machine = MachineFor("amx");
  for (const int64_t k : {768, 4096, 12544}) {
    const Plan chosen = DefaultPlan(packed, Product(-1, k, 1024), machine).plan;
    const auto& plan = *chosen.as<MatmulPlanNode>();
    EXPECT_EQ(plan.kc != 0, k != 768) << ToJson(chosen);
    EXPECT_TRUE(plan.kc == 0 || plan.mc_tiles * plan.mr * plan.kc * 4 <= machine.l2_bytes / 8) << ToJson(chosen);
    EXPECT_EQ(packed.why_not_plan(Product(-1, k, 1024), machine, chosen), "") << ToJson(chosen);
  }
  // Such a weight stays in the cache.
  EXPECT_EQ(DefaultPlan(packed, Product(-1, 12544, 16), machine).plan.as<MatmulPlanNode>()->kc, 0);
}

TEST_P(EveryMachine, CostsGrowWithWork) {
  RegisterKernels();
  const Machine machine = MachineFor(GetParam());
  auto cycles = [&](const char* kernel, const Problem& problem) {
    return DefaultPlan(*schedule::FindKernel(kernel), problem, machine).cycles;
  };
  EXPECT_LT(cycles("matmul.packed", Product(128, 768, 768)), cycles("matmul.packed", Product(256, 768, 768)));
  EXPECT_LT(cycles("matmul.packed", Product(1, 768, 768)), cycles("matmul.packed", Product(128, 768, 768)));
  EXPECT_LT(cycles("conv2d.depthwise", Depthwise(96, 56, 3)), cycles("conv2d.depthwise", Depthwise(96, 56, 5)));
}

TEST(KernelsTest, TilesOfRegistersAreThoseOfTheMachine) {
  const Problem square = Product(1024, 1024, 1024);
  EXPECT_EQ(BestField("matmul.packed", square, "avx2", "mr"), 6);
  EXPECT_EQ(BestField("matmul.packed", square, "avx2", "nr"), 1);
  EXPECT_EQ(BestField("matmul.packed", square, "avx512", "nr"), 2);
  EXPECT_EQ(BestField("matmul.packed", square, "neon", "nr"), 1);
  EXPECT_EQ(BestField("conv2d.depthwise", Depthwise(96, 56, 3), "avx512", "tile_ow"), 14);
  EXPECT_EQ(BestField("conv2d.depthwise", Depthwise(96, 56, 3), "avx2", "tile_ow"), 6);
}

/// A pointwise convolution of `channels` in blocks of `block`, the last of which is padded.
Problem ConvOfPadded(int64_t channels, int64_t oc, int64_t block) {
  const Problem problem = Conv((channels + block - 1) / block * block, 28, oc, 1);
  auto node = MakeObject<ConvProblemNode>(*problem.as<ConvProblemNode>());
  node->ic_block = block;
  node->in_layout = {block};
  node->weight = runtime::NDArray::Empty({oc, channels, 1, 1}, DataType::Float(32));
  return Problem(ObjectPtr<Object>(node));
}

// Looking up where a channel lies takes a part of a step, which wide tiles hide.
TEST(KernelsTest, PaddingIsSkippedWhereThatIsLess) {
  const auto direct = [](const Problem& problem, const std::string& machine) {
    return BestField("conv2d.direct", problem, machine, "skip_padding");
  };
  for (const char* machine : {"avx2", "avx512", "neon"}) {
    EXPECT_EQ(direct(ConvOfPadded(20, 128, 16), machine), 1) << machine << ": 20 steps instead of 32";
    EXPECT_EQ(direct(ConvOfPadded(63, 128, 16), machine), 0) << machine << ": 63 steps instead of 64";
    EXPECT_EQ(direct(Conv(64, 28, 128, 1), machine), 0) << machine << ": nothing is padded";
  }
  EXPECT_EQ(direct(ConvOfPadded(20, 128, 8), "avx2"), 0) << "20 steps instead of 24, of 6 cycles";
  EXPECT_EQ(direct(ConvOfPadded(24, 128, 16), "avx512"), 1);
}

TEST(KernelsTest, UsersKernelsAreRankedByLevel) {
  RegisterKernels();
  const Machine machine = MachineFor("avx2");
  schedule::Kernel mine;
  mine.name = "test.mine";
  mine.op = "nn.dense";
  mine.compute = [](const Attrs&, const Array<te::Tensor>& inputs, const Type&) { return inputs; };
  const Array<te::Tensor> inputs{te::Placeholder({PrimExpr(8), PrimExpr(16)}),
                                 te::Placeholder({PrimExpr(16), PrimExpr(16)})};
  const Attrs attrs;
  const Type type;
  const Target target;
  const schedule::CallContext call{attrs, inputs, type, target};
  auto chosen = [&](int level, const schedule::CallContext* context) {
    mine.level = level;
    schedule::RegisterKernel(mine);
    return ChooseKernel("nn.dense", "cpu", Dense(8, 16, 16, true), machine, context).best()->kernel->name;
  };
  EXPECT_EQ(chosen(11, &call), "test.mine");
  EXPECT_EQ(chosen(10, &call), "dense.packed");  // it says what it costs
  EXPECT_EQ(chosen(11, nullptr), "dense.packed");
  EXPECT_TRUE(schedule::HasAddedKernels("nn.dense"));
  EXPECT_FALSE(schedule::HasAddedKernels("nn.matmul"));
  EXPECT_TRUE(schedule::RemoveKernel("nn.dense", "test.mine"));
  EXPECT_FALSE(schedule::RemoveKernel("nn.dense", "test.mine"));
  EXPECT_FALSE(schedule::HasAddedKernels());
}

TEST(KernelsTest, ReasonsNameWhatIsInTheWay) {
  EXPECT_EQ(WhyNot(Conv(64, 56, 64, 5), "conv2d.winograd"), "the kernel is 5 x 5, not 3 x 3");
  EXPECT_EQ(WhyNot(Conv(64, 56, 64, 3), "conv2d.depthwise"), "not one channel in each group");
  EXPECT_EQ(WhyNot(Conv(64, 56, 64, 3), "conv2d.flat_pointwise"), "the kernel is 3 x 3, not 1 x 1");
  EXPECT_EQ(WhyNot(Conv(64, 56, 64, 3), "conv2d.plain"), "");
}

/// Networks have few pixels of many channels: there the weights of 36 points take longer than products of 16.
TEST(KernelsTest, ManyChannelsOfImagesOfAnySizeHaveSmallTiles) {
  RegisterKernels();
  const schedule::Kernel* winograd = schedule::FindKernel("conv2d.winograd");
  auto side = [&](int64_t channels) {
    Problem problem = Conv(channels, 56, channels, 3);
    auto* p = const_cast<ConvProblemNode*>(problem.as<ConvProblemNode>());
    p->ih = p->iw = p->oh = p->ow = -1;
    return schedule::ToJson(schedule::DefaultPlan(*winograd, problem, MachineFor("avx512")).plan);
  };
  EXPECT_NE(side(64).find(R"("side":6)"), std::string::npos) << side(64);
  EXPECT_NE(side(512).find(R"("side":4)"), std::string::npos) << side(512);
}

TEST(KernelsTest, PlansThatDontFitAreRefused) {
  RegisterKernels();
  const Machine machine = MachineFor("avx2");
  const Problem problem = Conv(64, 56, 64, 3);
  const schedule::Kernel* winograd = schedule::FindKernel("conv2d.winograd");
  auto plan = [](int64_t side, int64_t rows, int64_t columns) {
    return schedule::PlanFromJson(StrCat(R"({"type":"schedule.WinogradPlan","side":)", side, R"(,"rows":)", rows,
                                         R"(,"columns":)", columns, R"(,"by_oc_block":true,"parallel_strips":true})"));
  };
  EXPECT_EQ(winograd->why_not_plan(problem, machine, plan(6, 2, 14)), "");
  EXPECT_NE(winograd->why_not_plan(problem, machine, plan(5, 2, 14)), "");  // of stride 2
  EXPECT_NE(winograd->why_not_plan(problem, machine, plan(6, 0, 14)), "");
  EXPECT_NE(winograd->why_not_plan(problem, machine, plan(6, 1, 5)), "");
  EXPECT_NE(winograd->why_not_plan(problem, machine, plan(6, 2, 7)), "");
}

TEST(KernelsTest, WholeTransformsAreUsedWhereTheirSumsFit) {
  auto holds = [](int64_t channels, int16_t value, int64_t side) {
    runtime::NDArray weight = runtime::NDArray::Empty({2, channels, 3, 3}, DataType::Int(16), {kDLCPU, 0});
    std::fill_n(weight.Data<int16_t>(), weight.size(), int16_t{0});
    std::fill_n(weight.Data<int16_t>() + channels * 9, channels * 9, value);
    return HoldsWholeSums(weight, side);
  };
  // 2^31 / (255 * 128 * 9 * 64) is 114.2, / 4 is 1,827.6.
  EXPECT_TRUE(holds(114, -128, 6));
  EXPECT_FALSE(holds(115, -128, 6));
  EXPECT_TRUE(holds(115, 127, 6));
  EXPECT_TRUE(holds(1827, -128, 4));
  EXPECT_FALSE(holds(1828, -128, 4));
  EXPECT_TRUE(holds(1828, -128, kStridedSide));
}

/// Samples were of std::normal_distribution, which standard libraries make in different ways: one model, two programs.
TEST(KernelsTest, SampledErrorsAreTheSameEverywhere) {
  runtime::NDArray weight = runtime::NDArray::Empty({8, 16, 3, 3}, DataType::Float(32), {kDLCPU, 0});
  for (int64_t i = 0; i < 8 * 16 * 9; ++i) weight.Data<float>()[i] = static_cast<float>(i * 37 % 101 - 50) / 64;
  const WinogradError large = SampleWinogradError(weight, 6), small = SampleWinogradError(weight, 4);
  EXPECT_NEAR(large.of_plain, 8.0854, 0.01);
  EXPECT_NEAR(large.of_range, 8.6502e-07, 1e-10);
  EXPECT_NEAR(small.of_plain, 0.59143, 0.001);
  EXPECT_NEAR(small.of_range, 1.1164e-07, 1e-10);
}

/// Tiles of 2 x 2 outputs have less than half of the weights that those of 4 x 4 have: where few tiles use each of
/// them, reading them from memory takes longer than the products.
TEST(KernelsTest, WeightsFromMemoryDecideOnTilesOfFewOutputs) {
  RegisterKernels();
  const auto plan_of = [](const Problem& problem, const Machine& machine) {
    const Choice choice = ChooseKernel("nn.conv2d", "cpu", problem, machine);
    return schedule::ToJson(choice.best()->plan);
  };
  const auto side = [&](int64_t channels, int64_t size, const Machine& machine) {
    const std::string plan = plan_of(Conv(channels, size, channels, 3), machine);
    return plan.substr(plan.find("\"side\""), 8);
  };
  Machine machine = MachineFor("avx2");
  EXPECT_GT(machine.memory_cycles_per_byte, 0);
  EXPECT_EQ(side(512, 7, machine), "\"side\":4");
  EXPECT_EQ(side(160, 7, machine), "\"side\":4");
  EXPECT_EQ(side(256, 14, machine), "\"side\":6");
  EXPECT_EQ(side(64, 56, machine), "\"side\":6");
  // Two cores read each weight once, too.
  const Machine two = MachineOf(Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -num-cores=2"));
  for (const int64_t channels : {128, 256, 512, 640}) {
    EXPECT_EQ(side(channels, 7, two), "\"side\":4") << channels;
  }
  EXPECT_EQ(plan_of(Conv(1024, 4, 1024, 3), two).find("side"), std::string::npos);  // direct
  machine.memory_cycles_per_byte = 0;                                               // not known
  EXPECT_EQ(side(512, 7, machine), "\"side\":6");
  EXPECT_EQ(MachineFor("avx512").memory_cycles_per_byte, 0);
  EXPECT_EQ(side(512, 7, MachineFor("avx512")), "\"side\":6");
}

/// Of strips that several passes read, what a pass stores stays beside them in the L2 cache.
TEST(KernelsTest, StripsLeaveRoomForWhatAPassStores) {
  RegisterKernels();
  const Machine machine = MachineFor("avx2");
  const Choice choice = ChooseKernel("nn.conv2d", "cpu", Conv(16, 112, 64, 1), machine);
  ASSERT_EQ(choice.best()->kernel->name, "conv2d.direct");
  const std::string plan = schedule::ToJson(choice.best()->plan), field = "\"oh_block\":";
  const int64_t rows = std::stoi(plan.substr(plan.find(field) + field.size()));
  EXPECT_LE(rows * 112 * (16 + 16) * 4, machine.l2_bytes);
}

/// Weights that are known when running, too.
TEST(KernelsTest, StrictLeavesWinogradOut) {
  RegisterKernels();
  const Machine machine = MachineFor("avx2");
  const schedule::Kernel* winograd = schedule::FindKernel("conv2d.winograd");
  EXPECT_EQ(winograd->why_not(Conv(64, 56, 64, 3), machine), "");
  transform::PassContext context = transform::PassContext::Create();
  context.CopyOnWrite()->config.Set(transform::kAccuracyOption, String("strict"));
  transform::PassContext::Scope scope(context);
  EXPECT_NE(winograd->why_not(Conv(64, 56, 64, 3), machine), "");
  EXPECT_TRUE(winograd->space(Conv(64, 56, 64, 3), machine).empty());
}

}  // namespace
}  // namespace treadle::ops::cpu
