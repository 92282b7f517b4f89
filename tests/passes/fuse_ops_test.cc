// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>

#include "passes/pass_test.h"
#include "treadle/base/json.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)
using Names = std::vector<std::string>;

Names Fuse(const std::string& text, int level = 2) { return Groups(transform::FuseOps(level)(Parse(text))); }

TEST(FuseOps, ElementWiseChainIsOneFunction) {
  ExpectPass(transform::FuseOps(2), R"(
fn (%x: Tensor[(10, 20), float32]) {
  %0 = add(%x, 1f);
  %1 = exp(%0);
  squeeze(%1)
})",
             R"(
fn (%x: Tensor[(10, 20), float32]) {
  %2 = fn (%p0: Tensor[(10, 20), float32], Primitive=1) -> Tensor[(10, 20), float32] {
    %0 = add(%p0, 1f);
    %1 = exp(%0);
    squeeze(%1)
  };
  %2(%x)
})");
}

TEST(FuseOps, PrintsAsDocumented) {
  IRModule fused = transform::FuseOps(2)(Parse("fn (%x: Tensor[(10, 20), float32]) { exp(add(%x, 1f)) }"));
  EXPECT_EQ(Show(fused), R"(def @main(%x: Tensor[(10, 20), float32]) -> Tensor[(10, 20), float32] {
  %1 = fn (%p0: Tensor[(10, 20), float32], Primitive=1) -> Tensor[(10, 20), float32] {
    %0 = add(%p0, 1f);
    exp(%0)
  };
  %1(%x)
}
)");
}

TEST(FuseOps, ConvolutionTakesInBiasAndActivation) {
  EXPECT_EQ(Fuse(R"(
fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32], %b: Tensor[(4), float32]) {
  nn.relu(nn.bias_add(nn.conv2d(%x, %w, padding=[1, 1, 1, 1]), %b))
})"),
            (Names{"nn.bias_add nn.conv2d nn.relu/3"}));
}

TEST(FuseOps, ConvolutionWithTwoResultsStaysAlone) {
  EXPECT_EQ(Fuse(R"(
fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1]);
  (nn.relu(%0), add(%0, 1f))
})"),
            (Names{"add/1", "nn.conv2d/2", "nn.relu/1"}));
}

TEST(FuseOps, ConvolutionDoesntTakeInTranspose) {
  EXPECT_EQ(Fuse(R"(
fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) {
  transpose(nn.relu(nn.conv2d(%x, %w)), axes=[0, 2, 3, 1])
})"),
            (Names{"nn.conv2d nn.relu/2", "transpose/1"}));
}

TEST(FuseOps, DiamondIsOneFunctionTupleIsNot) {
  EXPECT_EQ(Fuse("fn (%x: Tensor[(4), float32]) { %0 = exp(%x); add(sqrt(%0), log(%0)) }"),
            (Names{"add exp log sqrt/1"}));
  EXPECT_EQ(Fuse("fn (%x: Tensor[(4), float32]) { %0 = exp(%x); (sqrt(%0), log(%0)) }"),
            (Names{"exp/1", "log/1", "sqrt/1"}));
}

TEST(FuseOps, LevelZeroIsOneFunctionPerOperator) {
  EXPECT_EQ(Fuse("fn (%x: Tensor[(4), float32]) { exp(sqrt(add(%x, 1f))) }", 0), (Names{"add/2", "exp/1", "sqrt/1"}));
}

TEST(FuseOps, OnlyOneConvolutionTakesInTheSum) {
  EXPECT_EQ(Fuse(R"(
fn (%x: Tensor[(1, 16, 64, 64), float32], %w1: Tensor[(16, 16, 3, 3), float32],
    %w2: Tensor[(16, 16, 1, 1), float32], %w3: Tensor[(16, 16, 3, 3), float32]) {
  %0 = add(%x, 1f);
  %1 = nn.conv2d(%0, %w1, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]);
  %2 = add(1f, %1);
  %3 = add(%1, %2);
  %4 = nn.conv2d(%3, %w2, channels=16, kernel_size=[1, 1]);
  %5 = nn.conv2d(%3, %w3, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]);
  add(%4, %5)
})"),
            (Names{"add add nn.conv2d/2", "add nn.conv2d/3", "add/1", "nn.conv2d/2"}));
}

TEST(FuseOps, ConcatenateTakesInItsFields) {
  const char* start = R"(
fn (%x: Tensor[(1, 16, 64, 64), float32]) {
  %0 = nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2]);
  %1 = nn.upsampling(%0, scale_h=2, scale_w=2);
)";
  EXPECT_EQ(Fuse(std::string(start) + "%2 = (%1, %x); add(concatenate(%2, axis=1), 1f) }"),
            (Names{"add concatenate nn.upsampling/2", "nn.max_pool2d/1"}));
  EXPECT_EQ(Fuse(std::string(start) + "(%1, %x) }"), (Names{"nn.max_pool2d/1", "nn.upsampling/1"}));
}

TEST(FuseOps, SplitFusesWithItsProjections) {
  EXPECT_EQ(Fuse(R"(
fn (%x: Tensor[(1, 16), float32], %w: Tensor[(48, 16), float32]) {
  %0 = nn.dense(%x, %w);
  %1 = split(%0, indices_or_sections=3, axis=1);
  %2 = sigmoid(%1.0);
  %3 = tanh(%1.1);
  %4 = exp(%1.2);
  %5 = multiply(%3, %4);
  add(%2, %5)
})"),
            (Names{"add exp multiply sigmoid split tanh/1", "nn.dense/2"}));
  EXPECT_EQ(Fuse(R"(
fn (%x: Tensor[(1, 48), float32], %w: Tensor[(16, 16), float32]) {
  %0 = split(%x, indices_or_sections=3, axis=1);
  nn.dense(%0.0, %w)
})"),
            (Names{"nn.dense/2", "split/1"}));
}

TEST(FuseOps, InceptionKeepsConcatenatesApart) {
  EXPECT_EQ(Fuse(R"(
fn (%x: Tensor[(1, 3, 8, 8), float32], %a: Tensor[(3, 3, 3, 3), float32], %b: Tensor[(3, 3, 3, 3), float32],
    %c: Tensor[(3, 6, 3, 3), float32], %d: Tensor[(3, 6, 3, 3), float32]) {
  %0 = nn.relu(nn.conv2d(%x, %a, padding=[1, 1, 1, 1]));
  %1 = nn.relu(nn.conv2d(%x, %b, padding=[1, 1, 1, 1]));
  %2 = concatenate((%0, %1), axis=1);
  %3 = nn.relu(nn.conv2d(%2, %c, padding=[1, 1, 1, 1]));
  %4 = nn.relu(nn.conv2d(%2, %d, padding=[1, 1, 1, 1]));
  concatenate((%3, %4), axis=1)
})"),
            (Names{"concatenate/2", "concatenate/2", "nn.conv2d nn.relu/2", "nn.conv2d nn.relu/2",
                   "nn.conv2d nn.relu/2", "nn.conv2d nn.relu/2"}));
}

TEST(FuseOps, StopFusionSeparatesAndDisappears) {
  EXPECT_EQ(Fuse("fn (%x: Tensor[(4), float32]) { exp(annotation.stop_fusion(add(%x, 1f))) }"),
            (Names{"add/1", "exp/1"}));
}

TEST(FuseOps, ReductionTakesInWhatComesBefore) {
  EXPECT_EQ(Fuse("fn (%x: Tensor[(4, 4), float32]) { exp(sum(add(%x, 1f), axis=[1])) }"),
            (Names{"add sum/1", "exp/1"}));
}

TEST(FuseOps, PoolOfWholeImagesTakesInBothSides) {
  EXPECT_EQ(Fuse("fn (%x: Tensor[(1, 3, 8, 8), float32]) { nn.relu(nn.global_avg_pool2d(exp(%x))) }"),
            (Names{"exp nn.global_avg_pool2d nn.relu/1"}));
  EXPECT_EQ(Fuse("fn (%x: Tensor[(1, 3, 8, 8), float32]) { nn.max_pool2d(exp(%x), pool_size=[3, 3]) }"),
            (Names{"exp/1", "nn.max_pool2d/1"}));
}

TEST(FuseOps, TupleOfInjectiveBranchesIsAbsorbed) {
  EXPECT_EQ(Fuse(R"(
fn (%x: Tensor[(1, 2, 3), float32]) {
  %0 = squeeze(%x);
  %1 = add(%0, 1f);
  %2 = squeeze(%0);
  %3 = add(%2, 1f);
  %4 = add(%3, 1f);
  %5 = add(%0, 1f);
  %6 = (%1, %4, %5);
  %7 = concatenate(%6);
  %8 = squeeze(%7);
  add(%8, 1f)
})"),
            (Names{"add add add add add concatenate squeeze squeeze squeeze/1"}));
}

/// What computes the sampled image is a kernel of its own, as what joins samples; what computes one's grid is not.
TEST(FuseOps, ImagesAreComputedBeforeTheyAreSampled) {
  EXPECT_EQ(Fuse(R"(
fn (%x: Tensor[(1, 4, 4, 3), float32], %y: Tensor[(1, 2, 2, 3), float32], %g: Tensor[(1, 5, 6, 2), float32]) {
  %0 = transpose(%g, axes=[0, 3, 1, 2]);
  %1 = transpose(exp(%x), axes=[0, 3, 1, 2]);
  %2 = transpose(%y, axes=[0, 3, 1, 2]);
  concatenate((image.grid_sample(%1, %0), image.grid_sample(%2, %0)), axis=1)
})"),
            (Names{"concatenate/2", "exp transpose/1", "image.grid_sample/2", "image.grid_sample/2", "transpose/1",
                   "transpose/1"}));
}

TEST(FuseOps, TupleOfResultsStaysOutside) {
  EXPECT_EQ(Fuse(R"(
fn (%x: Tensor[(1, 16, 8, 8), float32]) {
  %0 = add(%x, 1f); %1 = add(%x, 1f); %2 = add(%x, 1f); %3 = add(%x, 1f);
  %4 = concatenate((%0, %1, %2, %3), axis=1);
  %5 = add(%4, 1f); %6 = add(%4, 1f); %7 = add(%4, 1f);
  %8 = concatenate((%5, %6, %7), axis=1);
  %9 = nn.max_pool2d(%8, pool_size=[2, 2], strides=[2, 2]);
  %10 = add(%9, 1f);
  %11 = add(%10, 1f);
  (%10, %11)
})"),
            (Names{"add add add add add add add concatenate concatenate/1", "add nn.max_pool2d/1", "add/1"}));
}

TEST(FuseOps, ShiftOfTwoInjectiveOperands) {
  EXPECT_EQ(Fuse(R"(
fn (%x: Tensor[(1, 1), int32]) {
  %0 = add(%x, 1);
  %1 = squeeze(%0);
  %2 = transpose(%0, axes=[0, 1]);
  left_shift(%1, %2)
})"),
            (Names{"add left_shift squeeze transpose/1"}));
}

TEST(FuseOps, SoftmaxTakesInCast) {
  EXPECT_EQ(Fuse("fn (%x: Tensor[(4, 4), float32]) { cast(nn.softmax(%x), dtype=\"float16\") }"),
            (Names{"cast nn.softmax/1"}));
}

TEST(FuseOps, ScalarReduction) {
  EXPECT_EQ(Fuse("fn (%x: Tensor[(4), int32]) { min(less(%x, 10)) }"), (Names{"less min/1"}));
}

TEST(FuseOps, BranchesAreClosures) {
  EXPECT_EQ(Fuse(R"(
fn (%x: int32, %y: int32) {
  %0 = greater(%x, %y);
  %1 = if (%0) { fn (%z: int32) { %z } } else { fn (%z: int32) { negative(%z) } };
  %1(%x)
})"),
            (Names{"greater/2", "negative/1"}));
}

TEST(FuseOps, MarksReshapes) {
  IRModule fused = transform::FuseOps(0)(Parse("fn (%x: Tensor[(4, 4), float32]) { reshape(%x, newshape=[16]) }"));
  EXPECT_NE(Show(fused).find("relay.reshape_only=1"), std::string::npos) << Show(fused);
}

TEST(FuseOps, RunningItAgainChangesNothing) {
  IRModule once = transform::FuseOps(2)(Parse("fn (%x: Tensor[(4), float32]) { exp(sqrt(%x)) }"));
  EXPECT_TRUE(StructuralEqual(once, transform::FuseOps(2)(once)));
}

TEST(FuseOps, ConstantsBecomeParametersUnlessLinked) {
  const char* text = R"(
fn (%x: Tensor[(4, 4), float32]) {
  %0 = concatenate((%x, %x));
  take(%0, meta[relay.Constant][0], axis=0)
}
#[metadata]
)";
  (void)text;
  Array<Expr> args;
  IRModule module =
      Parse("fn (%x: Tensor[(4, 4), float32], %i: Tensor[(1), int64]) { take(concatenate((%x, %x)), %i, axis=0) }");
  Function main = Downcast<Function>(module->Lookup("main"));
  Constant index(runtime::NDArray::FromVector<int64_t>({0}, {1}, DataType::Int(64)));
  Function bound({main->params[0]}, Bind(main->body, {{main->params[1], index}}));
  module = InferTypes(IRModule::FromExpr(bound));
  EXPECT_EQ(Groups(transform::FuseOps(2)(module)), (Names{"concatenate take/2"}));
  PassContext context = PassContext::Create();
  context.CopyOnWrite()->config.Set(kFuseLinkParams, IntImm(DataType::Bool(), 1));
  PassContext::Scope scope(context);
  EXPECT_EQ(Groups(transform::FuseOps(2)(module)), (Names{"concatenate take/1"}));
}

TEST(FuseOps, DefuseUndoes) {
  const char* text = "fn (%x: Tensor[(4), float32]) { exp(sqrt(add(%x, 1f))) }";
  IRModule module = Parse(text);
  EXPECT_TRUE(StructuralEqual(transform::DefuseOps()(transform::FuseOps(2)(module)), module));
}

TEST(FuseOps, ReportNamesGroupsAndReasons) {
  std::string report = transform::FusionReport(
      Parse("fn (%x: Tensor[(4, 4), float32]) { exp(sum(add(%x, 1f), axis=[1])) }"), PassContext::Create(), 2);
  EXPECT_NE(report.find("add, sum"), std::string::npos) << report;
  EXPECT_NE(report.find("not fused: sum (node 3) into exp (node 4): a reduction isn't fused into its consumer"),
            std::string::npos)
      << report;
}

/// Groups that Apache TVM 0.11 forms, measured by running it.
TEST(FuseOps, GoldenPrograms) {
  std::ifstream file(TREADLE_SOURCE_DIR "/tests/data/golden/fusion_and_plan.json");
  const Json programs = Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_FALSE(programs.empty());
  for (const Json& program : programs) {
    IRModule module = Parse(program["text"].get<std::string>());
    for (const auto& [level, functions] : program["fused"].items()) {
      Names expected;
      for (const auto& entry : functions) {
        std::string text;
        for (const auto& name : entry[0]) text += (text.empty() ? "" : " ") + name.get<std::string>();
        expected.push_back(text + "/" + std::to_string(entry[1].get<int>()));
      }
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(Groups(transform::FuseOps(std::stoi(level))(module)), expected)
          << "seed " << program["seed"].get<int64_t>() << " level " << level << "\n"
          << program["text"].get<std::string>();
    }
  }
}

}  // namespace
}  // namespace treadle::relay
