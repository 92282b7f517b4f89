// SPDX-License-Identifier: Apache-2.0
// Passes that change the form of a program: normal forms, lifting, partial evaluation, precision, layouts, gradients.
#include <gmock/gmock.h>

#include "passes/pass_test.h"
#include "targets/cpu/graph/passes.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

TEST(ToANormalForm, BindsEachValue) {
  ExpectPass(transform::ToANormalForm(), "fn (%x: Tensor[(4), float32]) { %0 = exp(%x); add(%0, log(%0)) }",
             "fn (%x: Tensor[(4), float32]) { let %a = exp(%x); let %b = log(%a); let %c = add(%a, %b); %c }");
}

TEST(ToANormalForm, BranchesKeepWhatOnlyTheyUse) {
  ExpectPass(transform::ToANormalForm(), "fn (%c: bool, %x: Tensor[(4), float32]) { if (%c) { exp(%x) } else { %x } }",
             "fn (%c: bool, %x: Tensor[(4), float32]) { let %r = if (%c) { let %a = exp(%x); %a } else { %x }; %r }");
}

TEST(ToBasicBlockNormalForm, BindsWhatScopesShare) {
  ExpectPass(transform::ToBasicBlockNormalForm(), R"(
fn (%c: bool, %x: Tensor[(4), float32]) {
  %0 = exp(%x);
  if (%c) { log(%0) } else { sqrt(%0) }
})",
             R"(
fn (%c: bool, %x: Tensor[(4), float32]) {
  let %v = exp(%x);
  if (%c) { log(%v) } else { sqrt(%v) }
})");
}

TEST(ToBasicBlockNormalForm, LeavesDataFlow) {
  IRModule module = Parse("fn (%x: Tensor[(4), float32]) { %0 = exp(%x); add(%0, %0) }");
  EXPECT_TRUE(StructuralEqual(transform::ToBasicBlockNormalForm()(module), module));
}

TEST(ToGraphNormalForm, RemovesLets) {
  ExpectPass(transform::ToGraphNormalForm(),
             "fn (%x: Tensor[(4), float32]) { let %a = exp(%x); let %b = log(%a); add(%a, %b) }",
             "fn (%x: Tensor[(4), float32]) { %0 = exp(%x); add(%0, log(%0)) }");
}

TEST(NormalForms, DeepChain) {
  Var x("x", TensorType(std::vector<int64_t>{4}, DataType::Float(32)));
  ops::RegisterAllOps();
  Expr e = x;
  for (int i = 0; i < 20000; ++i) e = Call(Op::Get("exp"), {e});
  IRModule module = InferTypes(IRModule::FromExpr(Function({x}, e)));
  IRModule back = transform::ToGraphNormalForm()(transform::ToANormalForm()(module));
  EXPECT_TRUE(StructuralEqual(back, module));
}

TEST(LambdaLift, LiftsClosures) {
  IRModule result = transform::LambdaLift()(Parse(R"(
fn (%x: Tensor[(4), float32], %y: Tensor[(4), float32]) {
  let %f = fn (%z: Tensor[(4), float32]) -> Tensor[(4), float32] { add(%x, %z) };
  %f(%y)
})"));
  EXPECT_EQ(result->functions.size(), 2u) << Show(result);
  EXPECT_NE(Show(result).find("@lifted_main_0(%x)"), std::string::npos) << Show(result);
}

TEST(PartialEvaluate, CallsKnownFunctionsAndBranches) {
  IRModule result = transform::PartialEvaluate()(Parse(R"(
fn (%x: Tensor[(4), float32]) {
  let %f = fn (%c: bool, %z: Tensor[(4), float32]) { if (%c) { exp(%z) } else { log(%z) } };
  %f(True, %x)
})"));
  std::string text = Show(result);
  EXPECT_NE(text.find("exp(%x)"), std::string::npos) << text;
  EXPECT_EQ(text.find("log"), std::string::npos) << text;
  EXPECT_EQ(text.find("if"), std::string::npos) << text;
}

TEST(ToMixedPrecision, ConvolutionsAreNarrowSoftmaxIsNot) {
  ExpectPass(transform::ToMixedPrecision(), R"(
fn (%x: Tensor[(2, 8), float32], %w: Tensor[(4, 8), float32]) { nn.softmax(nn.relu(nn.dense(%x, %w))) })",
             R"(
fn (%x: Tensor[(2, 8), float32], %w: Tensor[(4, 8), float32]) {
  %0 = cast(%x, dtype="float16");
  %1 = cast(%w, dtype="float16");
  %2 = nn.dense(%0, %1);
  %3 = nn.relu(%2);
  %4 = cast(%3, dtype="float32");
  nn.softmax(%4)
})");
}

TEST(ConvertLayout, TransformsOnlyAtTheBorders) {
  IRModule result = transform::ConvertLayout({{"nn.conv2d", {String("NHWC"), String("default")}}})(Parse(R"(
fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(3, 3, 3, 3), float32]) {
  nn.conv2d(nn.relu(nn.conv2d(%x, %w)), %w)
})"));
  std::string text = Show(result);
  size_t count = 0;
  for (size_t at = text.find("src_layout=\"NHWC\""); at != std::string::npos;
       at = text.find("src_layout=\"NHWC\"", at + 1))
    ++count;
  EXPECT_EQ(count, 1u) << text;
}

/// The slopes belong to the channels, wherever these are.
TEST(ConvertLayout, ActivationsWithAnAxisKeepTheirLayout) {
  IRModule result = transform::ConvertLayout({{"nn.conv2d", {String("NHWC"), String("default")}}})(Parse(R"(
fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(8, 3, 1, 1), float32], %a: Tensor[(8), float32]) {
  nn.prelu(nn.conv2d(%x, %w), %a, axis=1)
})"));
  EXPECT_THAT(Show(transform::InferType()(result)), ::testing::HasSubstr("nn.prelu("));
}

TEST(CombineParallelConv2D, JoinsThreeBranches) {
  IRModule result = transform::CombineParallelConv2D()(Parse(R"(
fn (%x: Tensor[(1, 3, 8, 8), float32], %a: Tensor[(2, 3, 1, 1), float32], %b: Tensor[(4, 3, 1, 1), float32],
    %c: Tensor[(6, 3, 1, 1), float32]) {
  (nn.relu(nn.conv2d(%x, %a)), nn.relu(nn.conv2d(%x, %b)), nn.relu(nn.conv2d(%x, %c)))
})"));
  std::string text = Show(result);
  EXPECT_EQ(text.find("nn.conv2d"), text.rfind("nn.conv2d")) << text;
  EXPECT_EQ(text.find("nn.relu"), text.rfind("nn.relu")) << text;
}

TEST(CombineParallelDense, StacksOrWidens) {
  const char* before = R"(
fn (%x: Tensor[(2, 8), float32], %a: Tensor[(4, 8), float32], %b: Tensor[(4, 8), float32],
    %c: Tensor[(4, 8), float32]) { (nn.dense(%x, %a), nn.dense(%x, %b), nn.dense(%x, %c)) })";
  EXPECT_NE(Show(transform::CombineParallelDense()(Parse(before))).find("nn.batch_matmul"), std::string::npos);
  std::string wide = Show(transform::CombineParallelDense(3, false)(Parse(before)));
  EXPECT_EQ(wide.find("nn.dense"), wide.rfind("nn.dense")) << wide;
}

TEST(Gradient, OfProducts) {
  IRModule module = Parse("fn (%x: Tensor[(4), float32], %y: Tensor[(4), float32]) { multiply(%x, %y) }");
  Function gradient = Gradient(Downcast<Function>(module->Lookup("main")));
  std::string text = PrettyPrint(gradient);
  EXPECT_NE(text.find("ones_like"), std::string::npos) << text;
  EXPECT_TRUE(StructuralEqual(gradient->ret_type,
                              ParseType("(Tensor[(4), float32], (Tensor[(4), float32], Tensor[(4), float32]))")))
      << text;
}

TEST(Gradient, OfASmallConvolutionalNetworkHasTheParametersTypes) {
  IRModule module = Parse(R"(
fn (%x: Tensor[(2, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32], %b: Tensor[(4), float32],
    %d: Tensor[(5, 64), float32]) {
  %0 = nn.relu(nn.bias_add(nn.conv2d(%x, %w, padding=[1, 1, 1, 1]), %b));
  %1 = nn.max_pool2d(%0, pool_size=[2, 2], strides=[2, 2]);
  %2 = nn.dense(nn.batch_flatten(%1), %d);
  sum(nn.log_softmax(%2))
})");
  Function main = Downcast<Function>(module->Lookup("main"));
  Function gradient = Gradient(main);
  const auto* result = gradient->body->type_as<TupleTypeNode>();
  const auto* grads = result->fields[1].as<TupleTypeNode>();
  for (size_t i = 0; i < main->params.size(); ++i) {
    EXPECT_TRUE(StructuralEqual(grads->fields[i], main->params[i]->checked_type())) << i;
  }
}

TEST(Gradient, RefusesConvolutionsWithResultsInAnotherLayout) {
  IRModule module = Parse(R"(
fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) {
  nn.conv2d(%x, %w, out_layout="NHWC")
})");
  try {
    Gradient(Downcast<Function>(module->Lookup("main")));
    FAIL() << "a gradient in the layout of the data";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("implemented for layouts NCHW and OIHW"), std::string::npos)
        << error.what();
  }
}

TEST(Conv1DToConv2D, KeepsElementWiseOperatorsBetweenConvolutionsWide) {
  ExpectPass(transform::Conv1DToConv2D(), R"(
fn (%x: Tensor[(1, 4, 9), float32], %w: Tensor[(8, 4, 3), float32], %b: Tensor[(8, 1), float32],
    %v: Tensor[(2, 8, 1), float32]) {
  %0 = nn.conv1d(%x, %w, padding=[1, 0], strides=[2], kernel_size=[3]);
  %1 = add(%0, %b);
  %2 = nn.relu(%1);
  nn.conv1d(%2, %v, padding=[0])
})",
             R"(
fn (%x: Tensor[(1, 4, 9), float32], %w: Tensor[(8, 4, 3), float32], %b: Tensor[(8, 1), float32],
    %v: Tensor[(2, 8, 1), float32]) {
  %0 = expand_dims(%x, axis=2);
  %1 = expand_dims(%w, axis=2);
  %2 = nn.conv2d(%0, %1, strides=[1, 2], padding=[0, 1, 0, 0], kernel_size=[1, 3]);
  %3 = expand_dims(%b, axis=1);
  %4 = add(%2, %3);
  %5 = nn.relu(%4);
  %6 = expand_dims(%v, axis=2);
  %7 = nn.conv2d(%5, %6, padding=[0, 0, 0, 0]);
  squeeze(%7, axis=[2])
})");
}

TEST(WidthToChannels, BiasAndActivationStayWithTheConvolution) {
  ExpectPass(transform::WidthToChannels(), R"(
fn (%x: Tensor[(1, 1, 64, 128), float32], %w: Tensor[(32, 1, 3, 128), float32], %b: Tensor[(32), float32]) {
  %0 = nn.conv2d(%x, %w, strides=[2, 1], padding=[1, 0, 0, 0], kernel_size=[3, 128]);
  %1 = nn.bias_add(%0, %b);
  nn.relu(%1)
})",
             R"(
fn (%x: Tensor[(1, 1, 64, 128), float32], %w: Tensor[(32, 1, 3, 128), float32], %b: Tensor[(32), float32]) {
  %0 = transpose(%x, axes=[0, 1, 3, 2]);
  %1 = reshape(%0, newshape=[1, 128, 1, 64]);
  %2 = transpose(%w, axes=[0, 1, 3, 2]);
  %3 = reshape(%2, newshape=[32, 128, 1, 3]);
  %4 = nn.conv2d(%1, %3, strides=[1, 2], padding=[0, 1, 0, 0], kernel_size=[1, 3]);
  %5 = nn.bias_add(%4, %b);
  %6 = nn.relu(%5);
  reshape(%6, newshape=[1, 32, 32, 1])
})");
}

TEST(WidthToChannels, WindowsThatMoveAcrossStay) {
  const char* const text = R"(
fn (%x: Tensor[(1, 1, 64, 128), float32], %w: Tensor[(32, 1, 3, 127), float32]) {
  nn.conv2d(%x, %w, padding=[0, 0, 0, 0])
})";
  ExpectPass(transform::WidthToChannels(), text, text);
}

TEST(SkipPaddedTaps, OutputsWithTheSameTapsAreBlocks) {
  // The first four rows see the lower two taps, the last four the upper two, those between them the middle one.
  ExpectPass(transform::SkipPaddedTaps(), R"(
fn (%x: Tensor[(1, 32, 12, 6), float32], %w: Tensor[(32, 32, 3, 1), float32]) {
  nn.conv2d(%x, %w, padding=[8, 0, 8, 0], dilation=[8, 1])
})",
             R"(
fn (%x: Tensor[(1, 32, 12, 6), float32], %w: Tensor[(32, 32, 3, 1), float32]) {
  %0 = strided_slice(%x, begin=[0, 0], end=[12, 6], strides=[1, 1], axes=[2, 3]);
  %1 = strided_slice(%w, begin=[1, 0], end=[3, 1], strides=[1, 1], axes=[2, 3]);
  %2 = nn.conv2d(%0, %1, padding=[0, 0, 0, 0], dilation=[8, 1], kernel_size=[2, 1]);
  %3 = strided_slice(%x, begin=[4, 0], end=[8, 6], strides=[1, 1], axes=[2, 3]);
  %4 = strided_slice(%w, begin=[1, 0], end=[2, 1], strides=[1, 1], axes=[2, 3]);
  %5 = nn.conv2d(%3, %4, padding=[0, 0, 0, 0], dilation=[8, 1], kernel_size=[1, 1]);
  %6 = strided_slice(%x, begin=[0, 0], end=[12, 6], strides=[1, 1], axes=[2, 3]);
  %7 = strided_slice(%w, begin=[0, 0], end=[2, 1], strides=[1, 1], axes=[2, 3]);
  %8 = nn.conv2d(%6, %7, padding=[0, 0, 0, 0], dilation=[8, 1], kernel_size=[2, 1]);
  %9 = (%2, %5, %8);
  concatenate(%9, axis=2)
})");
}

TEST(SkipPaddedTaps, WindowsWithinTheImageStay) {
  const char* const text = R"(
fn (%x: Tensor[(1, 32, 24, 24), float32], %w: Tensor[(32, 32, 3, 3), float32]) {
  nn.conv2d(%x, %w, padding=[4, 4, 4, 4], dilation=[4, 4])
})";
  ExpectPass(transform::SkipPaddedTaps(), text, text);
}

TEST(DilationToBatch, EvenAndOddPixelsAreImages) {
  ExpectPass(transform::DilationToBatch(), R"(
fn (%x: Tensor[(1, 64, 33, 32), float32], %w: Tensor[(32, 64, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[2, 2, 2, 2], dilation=[2, 2]);
  nn.relu(%0)
})",
             R"(
fn (%x: Tensor[(1, 64, 33, 32), float32], %w: Tensor[(32, 64, 3, 3), float32]) {
  %0 = nn.space_to_batch_nd(%x, block_shape=[1, 2, 2], paddings=[[0, 0], [2, 3], [2, 2]]);
  %1 = nn.conv2d(%0, %w, padding=[0, 0, 0, 0]);
  %2 = nn.batch_to_space_nd(%1, block_shape=[1, 2, 2], crops=[[0, 0], [0, 1], [0, 0]]);
  nn.relu(%2)
})");
}

TEST(DilationToBatch, ImagesSmallerThanTilesStay) {
  const char* const text = R"(
fn (%x: Tensor[(1, 64, 9, 9), float32], %w: Tensor[(32, 64, 3, 3), float32]) {
  nn.conv2d(%x, %w, padding=[2, 2, 2, 2], dilation=[2, 2])
})";
  ExpectPass(transform::DilationToBatch(), text, text);
}

}  // namespace
}  // namespace treadle::relay
