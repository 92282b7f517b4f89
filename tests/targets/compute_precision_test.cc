// SPDX-License-Identifier: Apache-2.0
#include "../passes/pass_test.h"
#include "targets/cpu/graph/passes.h"
#include "treadle/targets/target_spec.h"

namespace treadle::targets {
namespace {

using relay::transform::ComputePrecision;
using relay::transform::ShareRounding;
using testing::ExpectPass;
using testing::PassContext;

PassContext Asking(const std::string& precision, const std::string& keep = "") {
  PassContext context = PassContext::Create();
  context.CopyOnWrite()->config.Set(relay::kComputePrecision, String(precision));
  if (!keep.empty()) context.CopyOnWrite()->config.Set(relay::kKeepPrecision, String(keep));
  return context;
}

const char* kDense = R"(
fn (%x: Tensor[(2, 64), float32], %w: Tensor[(48, 64), float32]) { nn.softmax(nn.dense(%x, %w)) })";

// The function says which layers were narrowed, by name: here their place in the text.
TEST(ComputePrecision, RoundsOperandsWhereTheMachineSumsPairs) {
  PassContext::Scope scope(Asking("bf16"));
  ExpectPass(ComputePrecision(Target("llvm -mcpu=znver4")), kDense, R"(
fn (%x: Tensor[(2, 64), float32], %w: Tensor[(48, 64), float32], narrowed_layers=["text:2:86"]) {
  nn.softmax(nn.dense(nn.contrib_pair_cast(%x), nn.contrib_pair_cast(%w), out_dtype="float32"))
})");
}

TEST(ComputePrecision, LeavesWhatTheMachineDoesNotSpeedUp) {
  PassContext::Scope scope(Asking("bf16"));
  ExpectPass(ComputePrecision(Target("llvm -mcpu=skylake-avx512")), kDense, kDense);
}

/// Its instruction for pairs makes half as many products as its multiply-adds; tiles make eight times as many.
TEST(ComputePrecision, UsesDotsOnlyWhereTheyAreFaster) {
  PassContext::Scope scope(Asking("bf16"));
  const Target no_tiles("llvm -mcpu=sapphirerapids -mattr=-amx-int8,-amx-bf16");
  ExpectPass(ComputePrecision(no_tiles), kDense, kDense);
  const char* attention = R"(
fn (%q: Tensor[(1, 64, 32), float32], %k: Tensor[(1, 64, 32), float32], %m: Tensor[(1, 64, 64), float32]) {
  nn.attention(%q, %k, %k, %m)
})";
  ExpectPass(ComputePrecision(no_tiles), attention, attention);
  const Target tiles("llvm -mcpu=sapphirerapids");
  ExpectPass(ComputePrecision(tiles), attention, R"(
fn (%q: Tensor[(1, 64, 32), float32], %k: Tensor[(1, 64, 32), float32], %m: Tensor[(1, 64, 64), float32], narrowed_layers=["text:3:3"]) {
  %0 = nn.contrib_pair_cast(%k);
  nn.attention(nn.contrib_pair_cast(%q), %0, %0, %m)
})");
  ExpectPass(ComputePrecision(tiles), kDense, R"(
fn (%x: Tensor[(2, 64), float32], %w: Tensor[(48, 64), float32], narrowed_layers=["text:2:86"]) {
  nn.softmax(nn.dense(nn.contrib_pair_cast(%x), nn.contrib_pair_cast(%w), out_dtype="float32"))
})");
}

TEST(ComputePrecision, IsOffUnlessAskedFor) {
  ExpectPass(ComputePrecision(Target("llvm -mcpu=znver4")), kDense, kDense);
}

TEST(ComputePrecision, MixedTakesProductsThatPay) {
  PassContext::Scope scope(Asking("mixed"));
  const char* small = R"(
fn (%x: Tensor[(2, 64), float32], %w: Tensor[(8, 64), float32]) { nn.dense(%x, %w) })";
  ExpectPass(ComputePrecision(Target("llvm -mcpu=znver4")), small, small);
}

TEST(ComputePrecision, SumsModelsOf16BitsInFloat32) {
  const char* before = R"(
fn (%x: Tensor[(2, 64), float16], %w: Tensor[(48, 64), float16]) { nn.relu(nn.dense(%x, %w)) })";
  ExpectPass(ComputePrecision(Target("llvm -mcpu=znver4")), before, R"(
fn (%x: Tensor[(2, 64), float16], %w: Tensor[(48, 64), float16]) {
  nn.relu(cast(nn.dense(cast(%x, dtype="float32"), cast(%w, dtype="float32"), out_dtype="float32"), dtype="float16"))
})");
}

TEST(ComputePrecision, RefusesNamesThatItDoesNotKnow) {
  PassContext::Scope scope(Asking("fp8"));
  const IRModule module = testing::Parse(kDense);
  EXPECT_THROW(ComputePrecision(Target("llvm -mcpu=znver4"))(module), Error);
}

TEST(ShareRounding, ShortcutsAreReadAsConvolutionsReadThem) {
  ExpectPass(ShareRounding(), R"(
fn (%x: Tensor[(1, 16, 4, 4), float32], %w: Tensor[(16, 16, 1, 1), bfloat16]) {
  %0 = nn.relu(%x);
  %1 = nn.conv2d(nn.contrib_pair_cast(%0), %w, out_dtype="float32", channels=16, kernel_size=[1, 1]);
  add(%1, %0)
})",
             R"(
fn (%x: Tensor[(1, 16, 4, 4), float32], %w: Tensor[(16, 16, 1, 1), bfloat16]) {
  %0 = nn.contrib_pair_cast(nn.relu(%x));
  %1 = nn.conv2d(%0, %w, out_dtype="float32", channels=16, kernel_size=[1, 1]);
  add(%1, cast(%0, dtype="float32"))
})");
}

TEST(ShareRounding, LeavesWhatOthersReadInFloat32) {
  for (const char* reader : {"(%1, nn.softmax(%0))", "(%1, %0)"}) {
    const std::string text = std::string(R"(
fn (%x: Tensor[(1, 16, 4, 4), float32], %w: Tensor[(16, 16, 1, 1), bfloat16]) {
  %0 = nn.relu(%x);
  %1 = nn.conv2d(nn.contrib_pair_cast(%0), %w, out_dtype="float32", channels=16, kernel_size=[1, 1]);
  )") + reader + "\n}";
    ExpectPass(ShareRounding(), text.c_str(), text.c_str());
  }
}

TEST(ShareRounding, LeavesShortcutsOfMatrixProducts) {
  const char* text = R"(
fn (%x: Tensor[(2, 64), float32], %w: Tensor[(64, 64), bfloat16]) {
  %0 = nn.relu(%x);
  %1 = nn.dense(nn.contrib_pair_cast(%0), %w, out_dtype="float32");
  add(%1, %0)
})";
  ExpectPass(ShareRounding(), text, text);
}

TEST(ShareRounding, PartsAreRoundedBeforeTheyAreJoined) {
  ExpectPass(ShareRounding(), R"(
fn (%x: Tensor[(1, 16, 8, 8), float32], %w: Tensor[(16, 32, 1, 1), bfloat16]) {
  %0 = concatenate((nn.relu(%x), nn.max_pool2d(nn.relu(%x), pool_size=[3, 3], padding=[1, 1, 1, 1])), axis=1);
  %1 = nn.conv2d(nn.contrib_pair_cast(%0), %w, out_dtype="float32", channels=16, kernel_size=[1, 1]);
  (%1, nn.contrib_pair_cast(nn.max_pool2d(%0, pool_size=[2, 2], strides=[2, 2])))
})",
             R"(
fn (%x: Tensor[(1, 16, 8, 8), float32], %w: Tensor[(16, 32, 1, 1), bfloat16]) {
  %0 = concatenate((nn.contrib_pair_cast(nn.relu(%x)), nn.max_pool2d(nn.contrib_pair_cast(nn.relu(%x)), pool_size=[3, 3], padding=[1, 1, 1, 1])), axis=1);
  %1 = nn.conv2d(%0, %w, out_dtype="float32", channels=16, kernel_size=[1, 1]);
  (%1, nn.max_pool2d(%0, pool_size=[2, 2], strides=[2, 2]))
})");
}

TEST(ShareRounding, WhatIsSplitIsRoundedBefore) {
  ExpectPass(ShareRounding(), R"(
fn (%x: Tensor[(1, 32, 8, 8), float32], %w: Tensor[(16, 16, 1, 1), bfloat16]) {
  %0 = split(nn.relu(%x), indices_or_sections=[16], axis=1);
  %1 = %0.0;
  %2 = nn.conv2d(nn.contrib_pair_cast(%1), %w, out_dtype="float32", channels=16, kernel_size=[1, 1]);
  concatenate((nn.contrib_pair_cast(add(%2, %1)), nn.contrib_pair_cast(%0.1)), axis=1)
})",
             R"(
fn (%x: Tensor[(1, 32, 8, 8), float32], %w: Tensor[(16, 16, 1, 1), bfloat16]) {
  %0 = split(nn.contrib_pair_cast(nn.relu(%x)), indices_or_sections=[16], axis=1);
  %1 = %0.0;
  %2 = nn.conv2d(%1, %w, out_dtype="float32", channels=16, kernel_size=[1, 1]);
  concatenate((nn.contrib_pair_cast(add(%2, cast(%1, dtype="float32"))), %0.1), axis=1)
})");
  const char* needed = R"(
fn (%x: Tensor[(1, 32, 8, 8), float32], %w: Tensor[(16, 16, 1, 1), bfloat16]) {
  %0 = split(nn.relu(%x), indices_or_sections=[16], axis=1);
  %1 = nn.conv2d(nn.contrib_pair_cast(%0.0), %w, out_dtype="float32", channels=16, kernel_size=[1, 1]);
  (%1, nn.softmax(%0.1))
})";
  ExpectPass(ShareRounding(), needed, needed);
}

TEST(ShareRounding, WhatIsMovedIsRoundedBefore) {
  ExpectPass(ShareRounding(), R"(
fn (%x: Tensor[(2, 8, 16), float32], %w: Tensor[(32, 16), bfloat16]) {
  %0 = transpose(reshape(nn.relu(%x), newshape=[4, 4, 16]), axes=[1, 0, 2]);
  nn.matmul(nn.contrib_pair_cast(%0), %w, out_dtype="float32", transpose_b=True)
})",
             R"(
fn (%x: Tensor[(2, 8, 16), float32], %w: Tensor[(32, 16), bfloat16]) {
  %0 = transpose(reshape(nn.contrib_pair_cast(nn.relu(%x)), newshape=[4, 4, 16]), axes=[1, 0, 2]);
  nn.matmul(%0, %w, out_dtype="float32", transpose_b=True)
})");
}

TEST(ShareRounding, ParametersAndWhatOthersReadAreRoundedAfterMoves) {
  // All of a parameter would be rounded for a part; the sum is needed in float32, too.
  const char* part = R"(
fn (%x: Tensor[(64, 16), float32], %w: Tensor[(32, 16), bfloat16]) {
  %0 = strided_slice(%x, begin=[0], end=[2], strides=[1], axes=[0]);
  nn.matmul(nn.contrib_pair_cast(%0), %w, out_dtype="float32", transpose_b=True)
})";
  ExpectPass(ShareRounding(), part, part);
  const char* shared = R"(
fn (%x: Tensor[(16, 16), float32], %w: Tensor[(32, 16), bfloat16]) {
  %0 = nn.relu(%x);
  (nn.matmul(nn.contrib_pair_cast(transpose(%0, axes=[1, 0])), %w, out_dtype="float32", transpose_b=True), nn.softmax(%0))
})";
  ExpectPass(ShareRounding(), shared, shared);
}

TEST(ShareRounding, PartsThatAreNeededInFloat32StayWhole) {
  const char* text = R"(
fn (%x: Tensor[(1, 16, 8, 8), float32], %w: Tensor[(16, 32, 1, 1), bfloat16]) {
  %0 = nn.relu(%x);
  %1 = concatenate((%0, nn.relu(%0)), axis=1);
  (nn.conv2d(nn.contrib_pair_cast(%1), %w, out_dtype="float32", channels=16, kernel_size=[1, 1]), nn.softmax(%0))
})";
  ExpectPass(ShareRounding(), text, text);
  const char* joined = R"(
fn (%x: Tensor[(1, 16, 8, 8), float32], %w: Tensor[(16, 32, 1, 1), bfloat16]) {
  %0 = concatenate((nn.relu(%x), nn.relu(%x)), axis=1);
  (nn.conv2d(nn.contrib_pair_cast(%0), %w, out_dtype="float32", channels=16, kernel_size=[1, 1]), %0)
})";
  ExpectPass(ShareRounding(), joined, joined);
}

TEST(ShareRounding, MaximaAreOfRoundedNumbers) {
  ExpectPass(ShareRounding(), R"(
fn (%x: Tensor[(1, 16, 8, 8), float32]) { nn.contrib_pair_cast(nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2])) })",
             R"(
fn (%x: Tensor[(1, 16, 8, 8), float32]) { nn.max_pool2d(nn.contrib_pair_cast(%x), pool_size=[2, 2], strides=[2, 2]) })");
  const char* shared = R"(
fn (%x: Tensor[(1, 16, 8, 8), float32]) {
  %0 = nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2]);
  (nn.contrib_pair_cast(%0), %0)
})";
  ExpectPass(ShareRounding(), shared, shared);
}

}  // namespace
}  // namespace treadle::targets
