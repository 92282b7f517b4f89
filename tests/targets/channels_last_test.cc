// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions between transpositions of tokens keep channels last: text in, text out.
#include "../passes/pass_test.h"
#include "targets/cpu/graph/passes.h"

namespace treadle::targets {
namespace {

using relay::transform::ChannelsLast;
using testing::ExpectPass;

TEST(ChannelsLast, ConvolvesTokensInPlace) {
  ExpectPass(ChannelsLast(), R"(
fn (%x: Tensor[(2, 30, 16), float32], %w: Tensor[(16, 1, 3, 3), float32], %b: Tensor[(16), float32]) {
  %0 = reshape(transpose(%x, axes=[0, 2, 1]), newshape=[2, 16, 5, 6]);
  %1 = nn.conv2d(%0, %w, padding=[1, 1, 1, 1], groups=16, channels=16, kernel_size=[3, 3]);
  %2 = nn.relu(nn.bias_add(%1, %b));
  nn.gelu(transpose(reshape(%2, newshape=[2, 16, 30]), axes=[0, 2, 1]))
})",
             R"(
fn (%x: Tensor[(2, 30, 16), float32], %w: Tensor[(16, 1, 3, 3), float32], %b: Tensor[(16), float32]) {
  %0 = nn.contrib_depthwise_conv2d_NHWC(reshape(%x, newshape=[2, 5, 6, 16]), transpose(%w, axes=[2, 3, 0, 1]), padding=[1, 1, 1, 1], groups=16, channels=16, kernel_size=[3, 3], data_layout="NHWC", kernel_layout="HWOI");
  %1 = nn.relu(nn.bias_add(%0, %b, axis=3));
  nn.gelu(reshape(%1, newshape=[2, 30, 16]))
})");
}

TEST(ChannelsLast, BatchesMayBeDynamic) {
  ExpectPass(ChannelsLast(), R"(
fn (%x: Tensor[(n, 30, 16), float32], %w: Tensor[(16, 1, 3, 3), float32]) {
  %0 = reshape(transpose(%x, axes=[0, 2, 1]), newshape=[-1, 16, 5, 6]);
  %1 = nn.conv2d(%0, %w, padding=[1, 1, 1, 1], groups=16, channels=16, kernel_size=[3, 3]);
  transpose(reshape(%1, newshape=[-1, 16, 30]), axes=[0, 2, 1])
})",
             R"(
fn (%x: Tensor[(n, 30, 16), float32], %w: Tensor[(16, 1, 3, 3), float32]) {
  %0 = nn.contrib_depthwise_conv2d_NHWC(reshape(%x, newshape=[n, 5, 6, 16]), transpose(%w, axes=[2, 3, 0, 1]), padding=[1, 1, 1, 1], groups=16, channels=16, kernel_size=[3, 3], data_layout="NHWC", kernel_layout="HWOI");
  reshape(%0, newshape=[n, 30, 16])
})");
}

TEST(ChannelsLast, AddsWhatWasTransposedToo) {
  ExpectPass(ChannelsLast(), R"(
fn (%x: Tensor[(1, 5, 6, 16), float32], %w: Tensor[(16, 1, 3, 3), float32]) {
  %0 = transpose(%x, axes=[0, 3, 1, 2]);
  %1 = nn.conv2d(%0, %w, padding=[1, 1, 1, 1], groups=16, channels=16, kernel_size=[3, 3]);
  transpose(multiply(add(%1, %0), 2f), axes=[0, 2, 3, 1])
})",
             R"(
fn (%x: Tensor[(1, 5, 6, 16), float32], %w: Tensor[(16, 1, 3, 3), float32]) {
  %0 = nn.contrib_depthwise_conv2d_NHWC(%x, transpose(%w, axes=[2, 3, 0, 1]), padding=[1, 1, 1, 1], groups=16, channels=16, kernel_size=[3, 3], data_layout="NHWC", kernel_layout="HWOI");
  multiply(add(%0, %x), reshape(2f, newshape=[1]))
})");
}

TEST(ChannelsLast, LeavesWhatIsReadInBothLayouts) {
  const char* text = R"(
fn (%x: Tensor[(1, 5, 6, 16), float32], %w: Tensor[(16, 1, 3, 3), float32]) {
  %0 = nn.conv2d(transpose(%x, axes=[0, 3, 1, 2]), %w, groups=16, channels=16, kernel_size=[3, 3]);
  (transpose(nn.relu(%0), axes=[0, 2, 3, 1]), %0)
})";
  ExpectPass(ChannelsLast(), text, text);
  const char* tokens = R"(
fn (%x: Tensor[(1, 5, 6, 16), float32], %w: Tensor[(16, 1, 3, 3), float32]) {
  %0 = nn.conv2d(transpose(%x, axes=[0, 3, 1, 2]), %w, groups=16, channels=16, kernel_size=[3, 3]);
  %1 = reshape(%0, newshape=[1, 16, 12]);
  (transpose(%1, axes=[0, 2, 1]), %1)
})";
  ExpectPass(ChannelsLast(), tokens, tokens);
}

TEST(ChannelsLast, LeavesWhatStatesItsShape) {
  for (const char* operand :
       {"full(2f, shape=[1, 16, 5, 6], dtype=\"float32\")", "broadcast_to(%0, shape=[1, 16, 5, 6])",
        "zeros(shape=[1, 16, 5, 6], dtype=\"float32\")"}) {
    const std::string text = std::string(R"(
fn (%x: Tensor[(1, 5, 6, 16), float32], %w: Tensor[(16, 1, 3, 3), float32]) {
  %0 = nn.conv2d(transpose(%x, axes=[0, 3, 1, 2]), %w, padding=[1, 1, 1, 1], groups=16, channels=16, kernel_size=[3, 3]);
  transpose(add(%0, )") + operand +
                             "), axes=[0, 2, 3, 1])\n}";
    ExpectPass(ChannelsLast(), text, text);
  }
}

TEST(ChannelsLast, LeavesOtherConvolutionsAndTranspositions) {
  const char* grouped = R"(
fn (%x: Tensor[(1, 5, 6, 16), float32], %w: Tensor[(16, 2, 3, 3), float32]) {
  transpose(nn.conv2d(transpose(%x, axes=[0, 3, 1, 2]), %w, groups=8, channels=16, kernel_size=[3, 3]), axes=[0, 2, 3, 1])
})";
  ExpectPass(ChannelsLast(), grouped, grouped);
  // Too few for vectors.
  const char* few = R"(
fn (%x: Tensor[(1, 5, 6, 12), float32], %w: Tensor[(12, 1, 3, 3), float32]) {
  transpose(nn.conv2d(transpose(%x, axes=[0, 3, 1, 2]), %w, groups=12, channels=12, kernel_size=[3, 3]), axes=[0, 2, 3, 1])
})";
  ExpectPass(ChannelsLast(), few, few);
  const char* turned = R"(
fn (%x: Tensor[(1, 6, 5, 16), float32], %w: Tensor[(16, 1, 3, 3), float32]) {
  transpose(nn.conv2d(transpose(%x, axes=[0, 3, 2, 1]), %w, groups=16, channels=16, kernel_size=[3, 3]), axes=[0, 2, 3, 1])
})";
  ExpectPass(ChannelsLast(), turned, turned);
  // Not an image of all tokens.
  const char* batches = R"(
fn (%x: Tensor[(2, 15, 16), float32], %w: Tensor[(16, 1, 3, 3), float32]) {
  %0 = reshape(transpose(%x, axes=[0, 2, 1]), newshape=[1, 16, 5, 6]);
  transpose(nn.conv2d(%0, %w, groups=16, channels=16, kernel_size=[3, 3]), axes=[0, 2, 3, 1])
})";
  ExpectPass(ChannelsLast(), batches, batches);
}

}  // namespace
}  // namespace treadle::targets
