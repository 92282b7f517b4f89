// SPDX-License-Identifier: Apache-2.0
// Every pass that keeps what a program computes: numbers and types before and after, in the interpreter.
#include <functional>

#include "passes/constant_arguments.h"
#include "passes/pass_test.h"
#include "targets/cpu/graph/passes.h"
#include "tests_common/relay_eval.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

struct NamedPass {
  const char* name;
  std::function<Pass()> make;
  double tolerance = 1e-4;
};

Pass ToNHWC() {
  return transform::ConvertLayout(
      {{"nn.conv2d", {String("NHWC"), String("default")}}, {"nn.max_pool2d", {String("NHWC")}}});
}

/// Batch normalisation can't be fused.
Pass Simplified(std::vector<Pass> passes) {
  passes.insert(passes.begin(), transform::SimplifyInference());
  return treadle::transform::Sequential(passes, "simplified");
}

/// A CPU with vectors of 512 bits.
schedule::Machine WideMachine() {
  schedule::Machine machine = ops::cpu::GenericMachine();
  machine.vector_bits = 512;
  machine.vector_registers = 32;
  return machine;
}

const NamedPass kPasses[] = {
    {"InferType", [] { return transform::InferType(); }},
    {"FuseOps0", [] { return Simplified({transform::FuseOps(0)}); }},
    {"FuseOps2", [] { return Simplified({transform::FuseOps(2)}); }},
    {"FuseThenDefuse", [] { return Simplified({transform::FuseOps(2), transform::DefuseOps()}); }},
    {"FoldConstant", [] { return transform::FoldConstant(); }},
    {"SimplifyInference", [] { return transform::SimplifyInference(); }},
    {"BackwardFoldScaleAxis", [] { return transform::BackwardFoldScaleAxis(); }},
    {"ForwardFoldScaleAxis", [] { return transform::ForwardFoldScaleAxis(); }},
    {"FoldScaleAxis", [] { return transform::FoldScaleAxis(); }},
    {"SimplifyExpr", [] { return transform::SimplifyExpr(); }},
    {"EliminateCommonSubexpr", [] { return transform::EliminateCommonSubexpr(); }},
    {"DeadCodeElimination", [] { return transform::DeadCodeElimination(); }},
    {"DeadCodeEliminationInlining", [] { return transform::DeadCodeElimination(true); }},
    {"CombineParallelConv2D", [] { return transform::CombineParallelConv2D(2); }},
    {"CombineParallelDense", [] { return transform::CombineParallelDense(2); }},
    {"CombineParallelDenseWide", [] { return transform::CombineParallelDense(2, false); }},
    {"CombineParallelBatchMatmul", [] { return transform::CombineParallelBatchMatmul(2); }},
    {"CanonicalizeOps", [] { return transform::CanonicalizeOps(); }},
    {"CanonicalizeCast", [] { return transform::CanonicalizeCast(); }},
    {"DynamicToStatic", [] { return transform::DynamicToStatic(); }},
    {"Inline", [] { return transform::Inline(); }},
    {"PropagateConstantArguments", [] { return transform::PropagateConstantArguments(); }},
    {"RemoveUnusedFunctions", [] { return transform::RemoveUnusedFunctions(); }},
    {"ToANormalForm", [] { return transform::ToANormalForm(); }},
    {"ToANormalFormAndBack",
     [] {
       return treadle::transform::Sequential({transform::ToANormalForm(), transform::ToGraphNormalForm()}, "both");
     }},
    {"ToBasicBlockNormalForm", [] { return transform::ToBasicBlockNormalForm(); }},
    {"LambdaLift", [] { return transform::LambdaLift(); }},
    {"PartialEvaluate", [] { return transform::PartialEvaluate(); }},
    {"AlterOpLayout", [] { return transform::AlterOpLayout(); }},
    {"ConvertLayout", [] { return ToNHWC(); }},
    {"FastMath", [] { return transform::FastMath(); }, 1e-3},
    {"Legalize", [] { return transform::Legalize(); }},
    {"PlanLayout", [] { return transform::PlanLayout(); }},
    {"PlanLayoutOfWideVectors", [] { return transform::PlanLayout(WideMachine()); }},
    {"LabelOps", [] { return transform::LabelOps(); }},
};

struct Program {
  const char* name;
  const char* text;
};

const Program kPrograms[] = {
    {"Elementwise", R"(fn (%x: Tensor[(3, 4), float32], %y: Tensor[(4), float32]) {
       %0 = add(%x, %y); %1 = exp(%0); %2 = exp(add(%x, %y)); (add(%1, %2), tanh(multiply(%0, 1f)), %1) })"},
    {"Network", R"(fn (%x: Tensor[(1, 4, 6, 6), float32], %w: Tensor[(4, 4, 3, 3), float32],
                      %g: Tensor[(4), float32], %b: Tensor[(4), float32], %d: Tensor[(5, 36), float32]) {
       %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1]);
       %1 = nn.batch_norm(%0, %g, %b, %b, exp(%g));
       %2 = nn.relu(nn.bias_add(%1.0, %b));
       %3 = nn.max_pool2d(%2, pool_size=[2, 2], strides=[2, 2]);
       %4 = nn.dropout(nn.batch_flatten(%3));
       nn.softmax(nn.dense(%4.0, %d)) })"},
    {"ParallelBranches", R"(fn (%x: Tensor[(1, 4, 6, 6), float32], %a: Tensor[(2, 4, 1, 1), float32],
                               %b: Tensor[(3, 4, 1, 1), float32], %v: Tensor[(2, 8), float32],
                               %p: Tensor[(4, 8), float32], %q: Tensor[(4, 8), float32],
                               %m: Tensor[(2, 3, 8), float32], %n: Tensor[(2, 5, 8), float32]) {
       %0 = nn.relu(nn.conv2d(%x, %a)); %1 = nn.relu(nn.conv2d(%x, %b));
       %2 = nn.dense(%v, %p); %3 = nn.dense(%v, %q);
       %4 = nn.batch_matmul(%m, %n); %5 = nn.batch_matmul(%m, add(%n, 1f));
       (concatenate((%0, %1), axis=1), add(%2, %3), subtract(%4, %5)) })"},
    {"ShapesAndTypes", R"(fn (%x: Tensor[(2, 3, 4), float32], %i: Tensor[(2, 3, 4), int8]) {
       %0 = transpose(transpose(%x, axes=[2, 0, 1]), axes=[1, 2, 0]);
       %1 = reshape(reshape(%0, newshape=[6, 4]), newshape=[4, 6]);
       %2 = cast(%i, dtype="int32");
       %3 = dyn.reshape(%0, meta[relay.Constant][0]);
       (squeeze(expand_dims(%1, axis=0)), add(%2, 3), multiply(%2, 2), strided_slice(%x, begin=[0, 1], end=[2, 3]),
        %3, zeros_like(%x)) })"},
    {"Control", R"(
def @twice(%z: Tensor[(4), float32], Inline=1) -> Tensor[(4), float32] { add(%z, %z) }
def @unused(%z: Tensor[(4), float32]) -> Tensor[(4), float32] { %z }
def @main(%c: bool, %x: Tensor[(4), float32]) -> (Tensor[(4), float32], Tensor[(4), float32]) {
  let %f = fn (%z: Tensor[(4), float32]) -> Tensor[(4), float32] { add(%x, %z) };
  %0 = exp(%x);
  %1 = if (%c) { %f(%0) } else { @twice(%0) };
  let %r = ref(%x);
  let %u = ref_write(%r, %f(%x));
  let %unused = sqrt(%x);
  (%1, ref_read(%r))
})"},
    {"Recursion", R"(
def @power(%n: int32, %x: float32) -> float32 {
  if (equal(%n, 0)) { 1f } else { multiply(%x, @power(subtract(%n, 1), %x)) }
}
def @main(%x: float32) -> float32 { @power(5, %x) })"},
};

/// meta[relay.Constant][0] of the programs: the shape [3, 8].
std::string WithMeta(std::string text) {
  size_t at = text.find("meta[relay.Constant][0]");
  if (at == std::string::npos) return text;
  text.replace(at, 23, "concatenate((reshape(3i64, newshape=[1]), reshape(8i64, newshape=[1])))");
  return text;
}

class KeepsNumbers : public ::testing::TestWithParam<std::tuple<NamedPass, Program>> {};

TEST_P(KeepsNumbers, AndTypes) {
  driver::RegisterAll();
  const auto& [pass, program] = GetParam();
  IRModule before = Parse(WithMeta(program.text));
  IRModule after = pass.make()(before);
  ExpectSameResult(before, after, 1, pass.tolerance);
  std::string message;
  for (const auto& [var, func] : after->functions) EXPECT_TRUE(WellFormed(func, &message)) << message;
  // Constants may make a dimension known that was not.
  if (std::string(program.name) != "ShapesAndTypes") {
    EXPECT_TRUE(
        StructuralEqual(InferTypes(after)->Lookup("main")->checked_type(), before->Lookup("main")->checked_type()))
        << Show(after);
  }
}

INSTANTIATE_TEST_SUITE_P(Passes, KeepsNumbers,
                         ::testing::Combine(::testing::ValuesIn(kPasses), ::testing::ValuesIn(kPrograms)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + std::get<1>(info.param).name;
                         });

TEST(ToMixedPrecision, StaysNearFloat32) {
  driver::RegisterAll();
  IRModule before = Parse(R"(
fn (%x: Tensor[(2, 8), float32], %w: Tensor[(4, 8), float32]) { nn.softmax(nn.relu(nn.dense(%x, %w))) })");
  IRModule after = transform::ToMixedPrecision()(before);
  EXPECT_NE(Show(after).find("float16"), std::string::npos);
  ExpectSameResult(before, after, 1, 2e-2);
}

}  // namespace
}  // namespace treadle::relay
