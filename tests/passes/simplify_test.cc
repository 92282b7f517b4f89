// SPDX-License-Identifier: Apache-2.0
// Passes that simplify: inference, constants, identities, common subexpressions, dead code, inlining.
#include "passes/constant_arguments.h"
#include "passes/pass_test.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

TEST(SimplifyInference, UnpacksBatchNorm) {
  ExpectPass(transform::SimplifyInference(), R"(
fn (%x: Tensor[(1, 3, 4, 4), float32], %g: Tensor[(3), float32], %b: Tensor[(3), float32],
    %m: Tensor[(3), float32], %v: Tensor[(3), float32]) {
  %0 = nn.batch_norm(%x, %g, %b, %m, %v);
  %0.0
})",
             R"(
fn (%x: Tensor[(1, 3, 4, 4), float32], %g: Tensor[(3), float32], %b: Tensor[(3), float32],
    %m: Tensor[(3), float32], %v: Tensor[(3), float32]) {
  %0 = add(%v, 1e-05f);
  %1 = sqrt(%0);
  %2 = divide(1f, %1);
  %3 = multiply(%2, %g);
  %4 = expand_dims(%3, axis=1, num_newaxis=2);
  %5 = negative(%m);
  %6 = multiply(%5, %3);
  %7 = add(%6, %b);
  %8 = multiply(%x, %4);
  %9 = expand_dims(%7, axis=1, num_newaxis=2);
  add(%8, %9)
})");
}

TEST(SimplifyInference, DropsDropout) {
  ExpectPass(transform::SimplifyInference(), "fn (%x: Tensor[(4), float32]) { %0 = nn.dropout(%x); exp(%0.0) }",
             "fn (%x: Tensor[(4), float32]) { exp(%x) }");
}

TEST(SimplifyInference, OtherNormsKeepTheirTypes) {
  for (const char* norm : {"nn.layer_norm(%x, %g, %b)", "nn.instance_norm(%x, %g, %b)",
                           "nn.group_norm(%x, %g, %b, num_groups=2)", "nn.l2_normalize(%x, eps=0.001f64, axis=[1])"}) {
    IRModule module = Parse(std::string("fn (%x: Tensor[(2, 4, 4), float32], %g: Tensor[(4), float32], "
                                        "%b: Tensor[(4), float32]) { ") +
                            norm + " }");
    IRModule result = transform::SimplifyInference()(module);
    EXPECT_EQ(Show(result).find("norm"), std::string::npos) << Show(result);
    EXPECT_TRUE(StructuralEqual(Downcast<Function>(result->Lookup("main"))->body->checked_type(),
                                Downcast<Function>(module->Lookup("main"))->body->checked_type()));
  }
}

/// As exporters write a group norm of one group.
TEST(SimplifyInference, NormOfAllChannelsKeepsDimensions) {
  ExpectPass(transform::SimplifyInference(), R"(
fn (%x: Tensor[(2, 4, 3, 3), float32], %g: Tensor[(1), float32], %b: Tensor[(1), float32]) {
  %0 = reshape(%x, newshape=[0, 1, -1]);
  nn.instance_norm(%0, %g, %b)
})",
             R"(
fn (%x: Tensor[(2, 4, 3, 3), float32], %g: Tensor[(1), float32], %b: Tensor[(1), float32]) {
  %0 = mean(%x, axis=[1, 2, 3], keepdims=True);
  %1 = subtract(%x, %0);
  %2 = multiply(%1, %1);
  %3 = mean(%2, axis=[1, 2, 3], keepdims=True);
  %4 = add(%3, 1e-05f);
  %5 = sqrt(%4);
  %6 = divide(%1, %5);
  %7 = multiply(%6, %g);
  %8 = add(%7, %b);
  reshape(%8, newshape=[0, 1, -1])
})");
}

TEST(FoldConstant, ShapesOfStaticTypes) {
  ExpectPass(transform::FoldConstant(), "fn (%x: float32) { ndarray_size(%x) }", "fn (%x: float32) { 1 }");
}

TEST(FoldConstant, BranchesAndProjections) {
  ExpectPass(transform::FoldConstant(), "fn (%x: Tensor[(4), float32]) { if (True) { exp(%x) } else { log(%x) } }",
             "fn (%x: Tensor[(4), float32]) { exp(%x) }");
  ExpectPass(transform::FoldConstant(), "fn (%x: Tensor[(4), float32]) { %0 = (%x, 1f); exp(%0.0) }",
             "fn (%x: Tensor[(4), float32]) { exp(%x) }");
}

TEST(FoldConstant, AsksTheEvaluator) {
  ConstantEvaluator before = GetConstantEvaluator();
  SetConstantEvaluator([](const Expr& e) -> Expr {
    const auto* call = e.as<CallNode>();
    float sum = 0;
    for (const Expr& arg : call->args) sum += *arg.as<ConstantNode>()->data.Data<float>();
    return Constant(runtime::NDArray::FromVector<float>({sum}, {}, DataType::Float(32)));
  });
  ExpectPass(transform::FoldConstant(), "fn (%x: Tensor[(4), float32]) { add(%x, add(add(1f, 2f), 4f)) }",
             "fn (%x: Tensor[(4), float32]) { add(%x, 7f) }");
  SetConstantEvaluator(before);
}

/// The number of transposes left of `text` after folding, its parameter %w replaced by zeros that aren't in memory yet.
int TransposesLeft(const std::string& text) {
  ConstantEvaluator before = GetConstantEvaluator();
  SetConstantEvaluator([](const Expr& e) -> Expr {
    const auto* type = e->type_as<TensorTypeNode>();
    return Constant(runtime::NDArray::Empty(StaticShape(type, "result"), type->dtype));
  });
  IRModule module = Parse(text);
  Function main = Downcast<Function>(module->Lookup("main"));
  const auto* type = main->params[0]->checked_type().as<TensorTypeNode>();
  Map<Var, Expr> weight;
  weight.Set(main->params[0], Constant(runtime::NDArray::Empty(StaticShape(type, "w"), type->dtype)));
  const Expr body = Bind(main->body, weight);
  const IRModule folded = transform::FoldConstant()(InferTypes(IRModule::FromExpr(Function({}, body, Type()))));
  SetConstantEvaluator(before);
  int left = 0;
  PostOrderVisit(folded->Lookup("main"), [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    if (call != nullptr && call->op.same_as(Op::Get("transpose"))) ++left;
  });
  return left;
}

TEST(FoldConstant, LargeWeightsAreMovedOnce) {
  // 3 GiB: the moved form takes the place of the weight.
  EXPECT_EQ(TransposesLeft("fn (%w: Tensor[(2, 1610612736), int8]) { transpose(%w, axes=[1, 0]) }"), 0);
  // Beside the weight they would fill the memory: what is added is at most 1 GiB and what the constants take.
  EXPECT_EQ(TransposesLeft(R"(
fn (%w: Tensor[(2, 3, 100, 2684355), int8]) {
  (transpose(%w, axes=[1, 0, 2, 3]), transpose(%w, axes=[2, 1, 0, 3]), transpose(%w, axes=[0, 1, 3, 2]))
})"),
            2);
}

TEST(SimplifyExpr, Identities) {
  const char* after = "fn (%x: Tensor[(2, 3), float32]) { exp(%x) }";
  for (const char* before : {"add(%x, 0f)", "subtract(%x, 0f)", "multiply(1f, %x)", "divide(%x, 1f)",
                             "add(%x, zeros(shape=[2, 3], dtype=\"float32\"))", "cast(%x, dtype=\"float32\")",
                             "reshape(reshape(%x, newshape=[6]), newshape=[2, 3])",
                             "transpose(transpose(%x, axes=[1, 0]), axes=[1, 0])", "transpose(%x, axes=[0, 1])"}) {
    ExpectPass(transform::SimplifyExpr(), std::string("fn (%x: Tensor[(2, 3), float32]) { exp(") + before + ") }",
               after);
  }
}

TEST(SimplifyExpr, KeepsWhatChangesTheType) {
  const char* text = "fn (%x: float32) { add(%x, zeros(shape=[2, 3], dtype=\"float32\")) }";
  IRModule result = transform::SimplifyExpr()(Parse(text));
  EXPECT_NE(Show(result).find("add"), std::string::npos);
}

/// They differ at -0 and -infinity.
TEST(SimplifyExpr, PowersOfHalfAreRootsOfWhatIsNeverNegative) {
  ExpectPass(transform::SimplifyExpr(), R"(
fn (%x: Tensor[(4, 8), float32]) {
  %0 = multiply(%x, %x);
  %1 = mean(%0, axis=[1], keepdims=True);
  %2 = add(%1, 1e-05f);
  %3 = power(%2, 0.5f);
  multiply(%x, %3)
})",
             R"(
fn (%x: Tensor[(4, 8), float32]) {
  %0 = multiply(%x, %x);
  %1 = mean(%0, axis=[1], keepdims=True);
  %2 = add(%1, 1e-05f);
  %3 = sqrt(%2);
  multiply(%x, %3)
})");
  const char* kept = "fn (%x: Tensor[(4), float32]) { %0 = add(%x, 1e-05f); power(%0, 0.5f) }";
  ExpectPass(transform::SimplifyExpr(), kept, kept);
}

TEST(SimplifyExpr, MergesTransposes) {
  ExpectPass(transform::SimplifyExpr(),
             "fn (%x: Tensor[(2, 3, 4), float32]) { transpose(transpose(%x, axes=[1, 2, 0]), axes=[1, 2, 0]) }",
             "fn (%x: Tensor[(2, 3, 4), float32]) { transpose(%x, axes=[2, 0, 1]) }");
}

TEST(SimplifyExpr, DropsBroadcastsThatOperatorsDo) {
  ExpectPass(transform::SimplifyExpr(),
             "fn (%x: Tensor[(1, 8, 4, 4), float32], %g: Tensor[(8, 1, 1), float32]) { "
             "multiply(%x, broadcast_to(%g, shape=[1, 8, 4, 4])) }",
             "fn (%x: Tensor[(1, 8, 4, 4), float32], %g: Tensor[(8, 1, 1), float32]) { multiply(%x, %g) }");
  ExpectPass(transform::SimplifyExpr(),
             "fn (%x: Tensor[(1, 4), float32], %y: Tensor[(3, 1), float32]) { "
             "less(broadcast_to(%y, shape=[3, 4]), %x) }",
             "fn (%x: Tensor[(1, 4), float32], %y: Tensor[(3, 1), float32]) { less(%y, %x) }");
}

TEST(SimplifyExpr, KeepsBroadcastsThatMakeTheResultLarger) {
  const char* kept =
      "fn (%x: Tensor[(1, 4), float32], %y: Tensor[(1, 1), float32]) { "
      "multiply(%x, broadcast_to(%y, shape=[3, 4])) }";
  ExpectPass(transform::SimplifyExpr(), kept, kept);
}

TEST(SimplifyExpr, JoinsParts) {
  const std::string x = "fn (%x: Tensor[(2, 6, 5, 4), float32]) { ";
  const std::string parts = x + "%0 = split(%x, indices_or_sections=3, axis=1); ";
  ExpectPass(transform::SimplifyExpr(), parts + "%1 = (%0.0, %0.1, %0.2); concatenate(%1, axis=1) }", x + "%x }");
  // Part p, row r of it and column c become row r and column 4 p + c.
  ExpectPass(transform::SimplifyExpr(), parts + "%1 = (%0.0, %0.1, %0.2); concatenate(%1, axis=-1) }",
             x + "%0 = reshape(%x, newshape=[2, 3, 2, 5, 4]); %1 = transpose(%0, axes=[0, 2, 3, 1, 4]); "
                 "reshape(%1, newshape=[2, 2, 5, 12]) }");
  ExpectPass(transform::SimplifyExpr(),
             x + "%0 = split(%x, indices_or_sections=2, axis=3); %1 = (%0.0, %0.1); concatenate(%1, axis=0) }",
             x + "%0 = reshape(%x, newshape=[2, 6, 5, 2, 2]); %1 = transpose(%0, axes=[3, 0, 1, 2, 4]); "
                 "reshape(%1, newshape=[4, 6, 5, 2]) }");
  // Other orders, fewer parts and parts of two splits stay.
  for (const char* some : {"(%0.1, %0.0, %0.2)", "(%0.0, %0.1)", "(%0.0, %0.1, %0.1)"}) {
    const std::string text = parts + "%1 = " + some + "; concatenate(%1, axis=3) }";
    ExpectPass(transform::SimplifyExpr(), text, text);
  }
}

TEST(EliminateCommonSubexpr, MergesEqualCalls) {
  ExpectPass(transform::EliminateCommonSubexpr(), R"(
fn (%x: Tensor[(4), float32]) {
  %0 = add(%x, 1f); %1 = exp(%0); %2 = add(%x, 1f); %3 = exp(%2);
  add(%1, %3)
})",
             "fn (%x: Tensor[(4), float32]) { %0 = add(%x, 1f); %1 = exp(%0); add(%1, %1) }");
}

TEST(EliminateCommonSubexpr, SkipCallbackWorks) {
  Pass pass = transform::EliminateCommonSubexpr([](const Expr&) { return true; });
  const char* text = "fn (%x: Tensor[(4), float32]) { %0 = exp(%x); %1 = exp(%x); add(%0, %1) }";
  ExpectPass(pass, text, text);
}

TEST(DeadCodeElimination, DropsUnusedLets) {
  ExpectPass(transform::DeadCodeElimination(),
             "fn (%x: Tensor[(4), float32]) { let %a = exp(%x); let %b = log(%a); let %c = sqrt(%x); %c }",
             "fn (%x: Tensor[(4), float32]) { let %c = sqrt(%x); %c }");
}

TEST(DeadCodeElimination, KeepsEffects) {
  const char* text =
      "fn (%x: Tensor[(4), float32]) { let %r = ref(%x); let %u = ref_write(%r, exp(%x)); ref_read(%r) }";
  ExpectPass(transform::DeadCodeElimination(), text, text);
}

TEST(DeadCodeElimination, InlinesSingleUses) {
  ExpectPass(transform::DeadCodeElimination(true), "fn (%x: Tensor[(4), float32]) { let %a = exp(%x); log(%a) }",
             "fn (%x: Tensor[(4), float32]) { log(exp(%x)) }");
}

TEST(Inline, CollapsesChains) {
  ExpectPass(transform::Inline(), R"(
def @f(%x: Tensor[(4), float32], Inline=1) -> Tensor[(4), float32] { exp(%x) }
def @g(%x: Tensor[(4), float32], Inline=1) -> Tensor[(4), float32] { log(@f(%x)) }
def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] { @g(@g(%x)) }
)",
             "fn (%x: Tensor[(4), float32]) { log(exp(log(exp(%x)))) }");
}

TEST(RemoveUnusedFunctions, KeepsWhatMainReaches) {
  IRModule result = transform::RemoveUnusedFunctions()(Parse(R"(
def @f(%x: Tensor[(4), float32]) -> Tensor[(4), float32] { exp(%x) }
def @g(%x: Tensor[(4), float32]) -> Tensor[(4), float32] { log(%x) }
def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] { @f(%x) }
)"));
  EXPECT_TRUE(result->ContainGlobalVar("f"));
  EXPECT_FALSE(result->ContainGlobalVar("g"));
}

TEST(PropagateConstantArguments, WhatALoopHandsOnBecomesPartOfIt) {
  IRModule result = transform::PropagateConstantArguments()(Parse(R"(
def @loop(%t: int64, %w: float32, %x: Tensor[(4), float32], %c: float32) -> Tensor[(4), float32] {
  if (less(%t, 3i64)) { @loop(add(%t, 1i64), %w, multiply(%x, %w), add(%c, 1f)) } else { add(%x, %c) }
}
def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] { @loop(0i64, 2f, %x, 5f) }
)"));
  const std::string text = Show(result);
  // %w is always 2; %t and %c change from call to call.
  EXPECT_NE(text.find("multiply(%x, 2f"), std::string::npos) << text;
  EXPECT_NE(text.find("@loop(0i64, %x"), std::string::npos) << text;
  EXPECT_EQ(text.find("%w"), std::string::npos) << text;
}

TEST(PropagateConstantArguments, CallsThatDifferKeepTheParameter) {
  const char* text = R"(
def @f(%w: float32, %x: Tensor[(4), float32]) -> Tensor[(4), float32] { multiply(%x, %w) }
def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] { @f(2f, @f(3f, %x)) }
)";
  EXPECT_NE(Show(transform::PropagateConstantArguments()(Parse(text))).find("%w"), std::string::npos);
}

TEST(CanonicalizeOps, ExpandsBiasAdd) {
  ExpectPass(transform::CanonicalizeOps(),
             "fn (%x: Tensor[(1, 3, 4, 4), float32], %b: Tensor[(3), float32]) { nn.bias_add(%x, %b) }",
             "fn (%x: Tensor[(1, 3, 4, 4), float32], %b: Tensor[(3), float32]) { add(%x, expand_dims(%b, axis=1, "
             "num_newaxis=2)) }");
}

TEST(CanonicalizeCast, ClonesUpcasts) {
  IRModule result = transform::CanonicalizeCast()(
      Parse("fn (%x: Tensor[(4), int8]) { %0 = cast(%x, dtype=\"int32\"); (add(%0, 1), multiply(%0, 2)) }"));
  std::string text = Show(result);
  EXPECT_NE(text.find("cast"), text.rfind("cast")) << text;
}

TEST(LabelOps, SetsHashAndLayouts) {
  IRModule module = transform::FuseOps(2)(
      Parse("fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) { nn.conv2d(%x, %w) }"));
  std::string text = Show(transform::LabelOps()(module));
  EXPECT_NE(text.find("hash="), std::string::npos) << text;
  EXPECT_NE(text.find("data_layout=\"NCHW\""), std::string::npos) << text;
}

/// main with its last parameter replaced by a constant vector.
IRModule WithConstant(const std::string& text, const std::vector<float>& values, const std::vector<int64_t>& shape) {
  IRModule module = Parse(text);
  Function main = Downcast<Function>(module->Lookup("main"));
  Constant constant(runtime::NDArray::FromVector(values, shape, DataType::Float(32)));
  Array<Var> params = main->params;
  Expr body = Bind(main->body, {{params.back(), constant}});
  params.pop_back();
  return InferTypes(IRModule::FromExpr(Function(params, body)));
}

TEST(FoldScaleAxis, BackwardThroughPositiveActivation) {
  const char* text =
      "fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32], "
      "%s: Tensor[(2, 1, 1), float32]) { multiply(nn.relu(nn.conv2d(%x, %w)), %s) }";
  std::string positive = Show(transform::BackwardFoldScaleAxis()(WithConstant(text, {2, 3}, {2, 1, 1})));
  EXPECT_LT(positive.find("multiply"), positive.find("nn.conv2d")) << positive;
  std::string negative = Show(transform::BackwardFoldScaleAxis()(WithConstant(text, {2, -3}, {2, 1, 1})));
  EXPECT_GT(negative.find("multiply"), negative.find("nn.conv2d")) << negative;
}

TEST(FoldScaleAxis, ForwardIntoConvolution) {
  const char* text =
      "fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32], "
      "%s: Tensor[(3, 1, 1), float32]) { nn.conv2d(multiply(%x, %s), %w) }";
  std::string result = Show(transform::ForwardFoldScaleAxis()(WithConstant(text, {2, -3, 4}, {3, 1, 1})));
  EXPECT_NE(result.find("nn.conv2d(%x"), std::string::npos) << result;
}

}  // namespace
}  // namespace treadle::relay
