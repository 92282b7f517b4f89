// SPDX-License-Identifier: Apache-2.0
// Passes that follow rules of operators, and those that join parallel operators: text in, text out.
#include <gmock/gmock.h>

#include "passes/check_indices.h"
#include "passes/pass_test.h"
#include "tests_common/relay_eval.h"
#include "treadle/ops/make.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

/// An operator has a rule as long as this lives.
class Rule {
 public:
  Rule(const std::string& op, const OpAttrKey<FLegalize>& key, FLegalize rule) : op_(op), key_(key.name) {
    ops::RegisterAllOps();
    OpRegistration(op).Set(key, std::move(rule));
  }
  ~Rule() { const_cast<OpNode*>(Op::Get(op_).get())->attr_map.erase(key_); }
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;

 private:
  std::string op_, key_;
};

/// What the size of an operand is read from is the operand as it has become: else the graph would be computed twice.
TEST(CheckIndices, ReadsSizesOfWhatIsChecked) {
  const IRModule module = transform::InferType()(Parse(R"(fn (%x: Tensor[(n, 8), float32], %i: Tensor[(2), int64]) {
    %0 = exp(take(%x, %i, axis=0, mode="error"));
    take(exp(take(%0, %i, axis=1, mode="error")), %i, axis=0, mode="error")
  })"));
  int exps = 0, takes = 0;
  PostOrderVisit(transform::CheckIndices()(module)->Lookup("main"), [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
    if (op == nullptr) return;
    exps += op->name == "exp";
    takes += op->name == "take" && call->attrs_as<ops::TakeAttrs>()->mode == "error";
  });
  EXPECT_EQ(exps, 2);
  EXPECT_EQ(takes, 3);
}

TEST(Legalize, RewritesByTheRule) {
  Rule rule("nn.relu", kLegalize, [](const Attrs&, const Array<Expr>& args, const Array<Type>& types) -> Expr {
    const auto* type = types[0].as<TensorTypeNode>();
    return ops::CallOp("maximum", {args[0], ops::ScalarConstant(type->dtype, 0.0)});
  });
  ExpectPass(transform::Legalize(), "fn (%x: Tensor[(4), float32]) { exp(nn.relu(nn.relu(%x))) }",
             "fn (%x: Tensor[(4), float32]) { exp(maximum(maximum(%x, 0f), 0f)) }");
}

TEST(Legalize, ARuleMayDecline) {
  Rule rule("nn.relu", kLegalize, [](const Attrs&, const Array<Expr>&, const Array<Type>&) { return Expr(); });
  const char* text = "fn (%x: Tensor[(4), float32]) { nn.relu(%x) }";
  ExpectPass(transform::Legalize(), text, text);
}

TEST(AlterOpLayout, TransformsMeetAndCancel) {
  Rule rule("nn.conv2d", kAlterOpLayout, [](const Attrs& attrs, const Array<Expr>& args, const Array<Type>&) -> Expr {
    const auto* conv = attrs.as<ops::Conv2DAttrs>();
    if (conv->data_layout != "NCHW") return Expr();
    auto to = [](const Expr& e, const char* from, const char* layout) {
      return ops::CallWith<ops::LayoutTransformAttrs>("layout_transform", {e}, [&](auto& a) {
        a.src_layout = from;
        a.dst_layout = layout;
      });
    };
    auto changed = MakeObject<ops::Conv2DAttrs>(*conv);
    changed->data_layout = "NHWC";
    changed->kernel_layout = "HWIO";
    Expr call = ops::CallOp("nn.conv2d", {to(args[0], "NCHW", "NHWC"), to(args[1], "OIHW", "HWIO")},
                            Attrs(ObjectPtr<Object>(changed)));
    return to(call, "NHWC", "NCHW");
  });
  driver::RegisterAll();
  IRModule before = Parse(R"(
fn (%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), float32]) {
  nn.conv2d(nn.relu(nn.conv2d(%x, %w)), %w)
})");
  IRModule after = transform::AlterOpLayout()(before);
  std::string text = Show(after);
  size_t back = text.find("src_layout=\"NHWC\"");
  EXPECT_NE(back, std::string::npos) << text;
  EXPECT_EQ(back, text.rfind("src_layout=\"NHWC\"")) << text;
  ExpectSameResult(before, after);
}

TEST(FastMath, UsesApproximations) {
  ExpectPass(transform::FastMath(), "fn (%x: Tensor[(2, 4), float32]) { nn.softmax(erf(tanh(exp(%x)))) }",
             "fn (%x: Tensor[(2, 4), float32]) { nn.fast_softmax(fast_erf(fast_tanh(fast_exp(%x)))) }");
}

TEST(FastMath, RunsAtLevel4OrWhenRequired) {
  IRModule module = Parse("fn (%x: Tensor[(2, 4), float32]) { exp(%x) }");
  PassContext context = PassContext::Create();
  context.CopyOnWrite()->opt_level = 3;
  PassContext::Scope scope(context);
  Pass passes = treadle::transform::Sequential({transform::FastMath()});
  EXPECT_EQ(Show(passes(module)).find("fast_exp"), std::string::npos);
  PassContext required = PassContext::Create();
  required.CopyOnWrite()->required_pass = {"FastMath"};
  PassContext::Scope inner(required);
  EXPECT_THAT(Show(passes(module)), HasSubstr("fast_exp"));
}

TEST(CombineParallelConv2D, CutsTheWideResult) {
  ExpectPass(transform::CombineParallelConv2D(2), R"(
fn (%x: Tensor[(1, 3, 8, 8), float32], %a: Tensor[(2, 3, 1, 1), float32], %b: Tensor[(4, 3, 1, 1), float32]) {
  (nn.conv2d(%x, %a, channels=2, kernel_size=[1, 1]), nn.conv2d(%x, %b, channels=4, kernel_size=[1, 1]))
})",
             R"(
fn (%x: Tensor[(1, 3, 8, 8), float32], %a: Tensor[(2, 3, 1, 1), float32], %b: Tensor[(4, 3, 1, 1), float32]) {
  %0 = (%a, %b);
  %1 = nn.conv2d(%x, concatenate(%0), channels=6, kernel_size=[1, 1]);
  (strided_slice(%1, begin=[0, 0], end=[-1, 2], strides=[1, 1], slice_mode="size"),
   strided_slice(%1, begin=[0, 2], end=[-1, 4], strides=[1, 1], slice_mode="size"))
})");
}

TEST(CombineParallelConv2D, BiasAlongAnotherDimensionStaysBehind) {
  const std::string head = R"(
fn (%x: Tensor[(1, 3, 8, 8), float32], %a: Tensor[(8, 3, 1, 1), float32], %b: Tensor[(8, 3, 1, 1), float32],
    %u: Tensor[(8), float32], %v: Tensor[(8), float32]) {
)";
  ExpectPass(transform::CombineParallelConv2D(2),
             head + "(nn.bias_add(nn.conv2d(%x, %a), %u, axis=2), nn.bias_add(nn.conv2d(%x, %b), %v, axis=2)) }",
             head + R"(
  %0 = (%a, %b);
  %1 = nn.conv2d(%x, concatenate(%0), channels=16);
  (nn.bias_add(strided_slice(%1, begin=[0, 0], end=[-1, 8], strides=[1, 1], slice_mode="size"), %u, axis=2),
   nn.bias_add(strided_slice(%1, begin=[0, 8], end=[-1, 8], strides=[1, 1], slice_mode="size"), %v, axis=2))
})");
}

TEST(FoldScaleAxis, FactorsOfAnotherTypeThanTheWeightStay) {
  for (const char* wide : {"int32", "float32"}) {
    const std::string narrow = wide == std::string("int32") ? "int8" : "float16";
    const std::string text =
        StrCat("fn (%x: Tensor[(1, 3, 4, 4), ", narrow, "], %w: Tensor[(2, 3, 1, 1), ", narrow, "]) { ",
               "multiply(nn.conv2d(%x, %w, out_dtype=\"", wide, "\"), full(cast(3f, dtype=\"", wide,
               "\"), shape=[2, 1, 1], dtype=\"", wide, "\")) }");
    const IRModule folded = transform::FoldConstant()(Parse(text));
    const IRModule after = transform::BackwardFoldScaleAxis()(folded);
    EXPECT_EQ(Show(after), Show(folded));
  }
}

TEST(CombineParallelDense, StacksIntoOneBatch) {
  ExpectPass(transform::CombineParallelDense(2), R"(
fn (%x: Tensor[(2, 8), float32], %a: Tensor[(4, 8), float32], %b: Tensor[(4, 8), float32]) {
  (nn.dense(%x, %a), nn.dense(%x, %b))
})",
             R"(
fn (%x: Tensor[(2, 8), float32], %a: Tensor[(4, 8), float32], %b: Tensor[(4, 8), float32]) {
  %0 = (%x, %x); %1 = (%a, %b);
  %2 = nn.batch_matmul(stack(%0), stack(%1));
  %3 = split(%2, indices_or_sections=2);
  (squeeze(%3.0, axis=[0]), squeeze(%3.1, axis=[0]))
})");
}

TEST(CombineParallelBatchMatmul, JoinsTheRightSides) {
  ExpectPass(transform::CombineParallelBatchMatmul(2), R"(
fn (%x: Tensor[(2, 3, 8), float32], %a: Tensor[(2, 4, 8), float32], %b: Tensor[(2, 5, 8), float32]) {
  (nn.batch_matmul(%x, %a), nn.batch_matmul(%x, %b))
})",
             R"(
fn (%x: Tensor[(2, 3, 8), float32], %a: Tensor[(2, 4, 8), float32], %b: Tensor[(2, 5, 8), float32]) {
  %0 = (%a, %b);
  %1 = nn.batch_matmul(%x, concatenate(%0, axis=1));
  (strided_slice(%1, begin=[0, 0, 0], end=[-1, -1, 4], strides=[1, 1, 1], slice_mode="size"),
   strided_slice(%1, begin=[0, 0, 4], end=[-1, -1, 5], strides=[1, 1, 1], slice_mode="size"))
})");
}

TEST(CombineParallel, TooFewBranchesStay) {
  const char* text = R"(
fn (%x: Tensor[(2, 8), float32], %a: Tensor[(4, 8), float32], %b: Tensor[(4, 8), float32]) {
  (nn.dense(%x, %a), nn.dense(%x, %b))
})";
  ExpectPass(transform::CombineParallelDense(3), text, text);
}

TEST(SimplifyExpr, LikesBecomeConcrete) {
  ExpectPass(transform::SimplifyExpr(),
             "fn (%x: Tensor[(2, 3), float32], %y: Tensor[(6), float32]) { (zeros_like(%x), reshape_like(%y, %x)) }",
             "fn (%x: Tensor[(2, 3), float32], %y: Tensor[(6), float32]) { (zeros(shape=[2, 3], dtype=\"float32\"), "
             "reshape(%y, newshape=[2, 3])) }");
}

}  // namespace
}  // namespace treadle::relay
