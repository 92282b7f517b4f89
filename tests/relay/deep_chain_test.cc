// SPDX-License-Identifier: Apache-2.0
// Chains of 200,000 operators go through every walk over graph IR.
#include <gtest/gtest.h>

#include "treadle/ir/structural.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {
namespace {

constexpr int kDepth = 200000;

Function Chain(int depth) {
  ops::RegisterAllOps();
  Var x("x", TensorType(std::vector<int64_t>{4}, DataType::Float(32)));
  Expr e = x;
  for (int i = 0; i < depth; ++i) e = Call(Op::Get("nn.relu"), {e});
  return Function({x}, e);
}

Function LetChain(int depth) {
  ops::RegisterAllOps();
  Var x("x", TensorType(std::vector<int64_t>{4}, DataType::Float(32)));
  std::vector<Var> vars;
  for (int i = 0; i < depth; ++i) vars.emplace_back("v");
  Expr body = vars.back();
  for (int i = depth; i-- > 0;)
    body = Let(vars[i], Call(Op::Get("nn.relu"), {i == 0 ? Expr(x) : Expr(vars[i - 1])}), body);
  return Function({x}, body);
}

TEST(DeepChain, TypesAreInferred) {
  IRModule module = InferTypes(IRModule::FromExpr(Chain(kDepth)));
  Function main = Downcast<Function>(module->Lookup("main"));
  EXPECT_TRUE(StructuralEqual(main->ret_type, TensorType(std::vector<int64_t>{4}, DataType::Float(32))));
  EXPECT_TRUE(InferTypes(module).same_as(module));
}

TEST(DeepChain, TypesOfLetsAreInferred) {
  IRModule module = InferTypes(IRModule::FromExpr(LetChain(kDepth)));
  Function main = Downcast<Function>(module->Lookup("main"));
  EXPECT_TRUE(StructuralEqual(main->ret_type, TensorType(std::vector<int64_t>{4}, DataType::Float(32))));
}

TEST(DeepChain, EqualChainsHaveEqualHashes) {
  Function a = LetChain(kDepth), b = LetChain(kDepth);
  EXPECT_TRUE(StructuralEqual(a, b));
  EXPECT_EQ(StructuralHash(a), StructuralHash(b));
  EXPECT_EQ(StructuralDifference(a, LetChain(kDepth - 1)).substr(0, 9), "root.body");
}

TEST(DeepChain, IsVisitedAndRewritten) {
  for (const Function& func : {Chain(kDepth), LetChain(kDepth)}) {
    size_t calls = 0;
    PostOrderVisit(func, [&](const Expr& e) { calls += e->IsInstance<CallNode>(); });
    EXPECT_EQ(calls, static_cast<size_t>(kDepth));
    ExprVisitor().VisitExpr(func);
    EXPECT_TRUE(ExprMutator().Mutate(func).same_as(func));
    EXPECT_TRUE(MixedModeMutator().Mutate(func).same_as(func));
    EXPECT_TRUE(WellFormed(func));
    EXPECT_TRUE(FreeVars(func).empty());
  }
}

}  // namespace
}  // namespace treadle::relay
