// SPDX-License-Identifier: Apache-2.0
#include "treadle/relay/dataflow_pattern.h"

#include <gmock/gmock.h>

#include "passes/pass_test.h"

namespace treadle::testing {
namespace {

using namespace relay;  // NOLINT(google-build-using-namespace): patterns read best with bare names
using ::testing::HasSubstr;

/// Patterns name operators before any text is parsed.
const bool kRegistered = [] {
  ops::RegisterAllOps();
  return true;
}();

/// The body of a function of %x, %y, %z: Tensor[(2, 3), float32].
Expr Body(const std::string& text) {
  const std::string type = "Tensor[(2, 3), float32]";
  IRModule module = Parse("fn (%x: " + type + ", %y: " + type + ", %z: " + type + ") { " + text + " }");
  return Downcast<Function>(module->Lookup("main"))->body;
}
DFPattern Relu(const DFPattern& x) { return IsOp("nn.relu")({x}); }
/// The text without types.
std::string Text(const Expr& expr) {
  TextOptions options;
  options.show_types = options.show_version = false;
  return AsText(expr, options);
}

TEST(DataflowPattern, MatchesKindsOfExpressions) {
  EXPECT_TRUE(MatchPattern(Wildcard(), Body("%x")));
  EXPECT_TRUE(MatchPattern(IsVar("x"), Body("%x")));
  EXPECT_FALSE(MatchPattern(IsVar("y"), Body("%x")));
  EXPECT_TRUE(MatchPattern(IsConstant(), Body("1f")));
  EXPECT_FALSE(MatchPattern(IsConstant(), Body("%x")));
  EXPECT_TRUE(MatchPattern(Relu(IsVar()), Body("nn.relu(%x)")));
  EXPECT_FALSE(MatchPattern(Relu(IsVar()), Body("exp(%x)")));
  EXPECT_TRUE(MatchPattern(IsOp("add")({Wildcard(), IsExpr(Body("1f"))}), Body("add(%x, 1f)")));
  EXPECT_FALSE(MatchPattern(IsOp("add")({Wildcard(), IsExpr(Body("1f"))}), Body("add(%x, 2f)")));
  EXPECT_TRUE(MatchPattern(CallOfAny(IsOp("add")), Body("add(%x, %y)")));
  EXPECT_FALSE(MatchPattern(IsOp("add")({Wildcard()}), Body("add(%x, %y)")));
}

TEST(DataflowPattern, MatchesTuplesBranchesFunctionsAndLets) {
  EXPECT_TRUE(MatchPattern(IsTuple({IsVar("x"), IsVar("y")}), Body("(%x, %y)")));
  EXPECT_FALSE(MatchPattern(IsTuple({IsVar("x")}), Body("(%x, %y)")));
  EXPECT_TRUE(MatchPattern(IsAnyTuple(), Body("(%x, %y)")));
  EXPECT_TRUE(MatchPattern(IsTupleGetItem(IsAnyTuple(), 1), Body("(%x, %y).1")));
  EXPECT_FALSE(MatchPattern(IsTupleGetItem(IsAnyTuple(), 0), Body("(%x, %y).1")));
  EXPECT_TRUE(MatchPattern(IsTupleGetItem(IsAnyTuple()), Body("(%x, %y).1")));
  EXPECT_TRUE(MatchPattern(IsIf(Wildcard(), IsVar("x"), IsVar("y")), Body("if (True) { %x } else { %y }")));
  EXPECT_TRUE(MatchPattern(IsLet(IsVar("a"), Relu(Wildcard()), IsVar("a")), Body("let %a = nn.relu(%x); %a")));
  DFPattern a = IsVar("a");
  EXPECT_TRUE(MatchPattern(IsFunction({a}, Relu(a)), Body("fn (%a: float32) { nn.relu(%a) }")));
  EXPECT_TRUE(MatchPattern(IsFunctionOfAny(Relu(Wildcard())), Body("fn (%a: float32) { nn.relu(%a) }")));
}

TEST(DataflowPattern, MatchesTypesAndAttributes) {
  EXPECT_TRUE(MatchPattern(Wildcard().HasDtype(DataType::Float(32)), Body("exp(%x)")));
  EXPECT_FALSE(MatchPattern(Wildcard().HasDtype(DataType::Float(16)), Body("exp(%x)")));
  EXPECT_TRUE(MatchPattern(Wildcard().HasShape({PrimExpr(2), PrimExpr(3)}), Body("exp(%x)")));
  EXPECT_FALSE(MatchPattern(Wildcard().HasShape({PrimExpr(2)}), Body("exp(%x)")));
  EXPECT_TRUE(MatchPattern(Wildcard().HasType(ParseType("Tensor[(2, 3), float32]")), Body("exp(%x)")));
  Map<String, ObjectRef> axis{{"axis", Array<ObjectRef>{IntImm(DataType::Int(32), 1)}}};
  EXPECT_TRUE(MatchPattern(CallOfAny(IsOp("sum")).HasAttr(axis), Body("sum(%x, axis=[1])")));
  EXPECT_FALSE(MatchPattern(CallOfAny(IsOp("sum")).HasAttr(axis), Body("sum(%x, axis=[0])")));
  Map<String, ObjectRef> elementwise{{"TOpPattern", IntImm(DataType::Int(32), 0)}};
  EXPECT_TRUE(MatchPattern(CallOfAny(Wildcard().HasAttr(elementwise)), Body("exp(%x)")));
  EXPECT_FALSE(MatchPattern(CallOfAny(Wildcard().HasAttr(elementwise)), Body("add(%x, %y)")));
  Map<String, ObjectRef> unknown{{"color", String("red")}};
  EXPECT_FALSE(MatchPattern(CallOfAny(IsOp("sum")).HasAttr(unknown), Body("sum(%x, axis=[1])")));
}

TEST(DataflowPattern, OneObjectStandsForOneExpression) {
  DFPattern same = Wildcard();
  EXPECT_TRUE(MatchPattern(IsOp("subtract")({same, same}), Body("%x - %x")));
  EXPECT_FALSE(MatchPattern(IsOp("subtract")({same, same}), Body("%x - %y")));
  EXPECT_TRUE(MatchPattern(IsOp("subtract")({Wildcard(), Wildcard()}), Body("%x - %y")));
}

TEST(DataflowPattern, AddAndMultiplyCommute) {
  DFPattern pattern = Relu(Wildcard()) + IsVar("y");
  EXPECT_TRUE(MatchPattern(pattern, Body("add(nn.relu(%x), %y)")));
  EXPECT_TRUE(MatchPattern(pattern, Body("add(%y, nn.relu(%x))")));
  EXPECT_FALSE(MatchPattern(Relu(Wildcard()) - IsVar("y"), Body("%y - nn.relu(%x)")));
}

TEST(DataflowPattern, ProductsAndQuotientsRotate) {
  DFPattern x = IsVar("x"), y = IsVar("y"), z = IsVar("z");
  EXPECT_TRUE(MatchPattern((x * y) / z, Body("(%x * %y) / %z")));
  EXPECT_TRUE(MatchPattern((x * y) / z, Body("(%x / %z) * %y")));
  EXPECT_TRUE(MatchPattern((x * y) / z, Body("%x * (%y / %z)")));
  EXPECT_TRUE(MatchPattern(x * (y / z), Body("(%x * %y) / %z")));
  EXPECT_FALSE(MatchPattern((x * y) / z, Body("(%x / %y) * %z")));
}

TEST(DataflowPattern, TakesAlternativesAndOptions) {
  DFPattern either = IsOp("exp") | IsOp("log");
  EXPECT_TRUE(MatchPattern(either({Wildcard()}), Body("log(%x)")));
  EXPECT_FALSE(MatchPattern(either({Wildcard()}), Body("sqrt(%x)")));
  DFPattern optional = IsOp("exp")({Wildcard()}).Optional([](const DFPattern& x) { return Relu(x); });
  EXPECT_TRUE(MatchPattern(optional, Body("exp(%x)")));
  EXPECT_TRUE(MatchPattern(optional, Body("nn.relu(exp(%x))")));
  EXPECT_FALSE(MatchPattern(optional, Body("nn.relu(%x)")));
}

DFPattern Diamond() {
  Map<String, ObjectRef> elementwise{{"TOpPattern", IntImm(DataType::Int(32), 0)}};
  DFPattern path = Wildcard().HasAttr(elementwise)({Wildcard()});
  return Dominates(IsOp("sigmoid")({Wildcard()}), path, IsOp("add")({Wildcard(), Wildcard()}));
}

TEST(DataflowPattern, DominatesDiamonds) {
  EXPECT_TRUE(MatchPattern(Diamond(), Body("%0 = sigmoid(%x); add(exp(%0), log(sqrt(%0)))")));
  EXPECT_TRUE(MatchPattern(Diamond(), Body("%0 = sigmoid(%x); add(%0, log(%0))")));
  // One side doesn't come from the parent; something on the way isn't elementwise.
  EXPECT_FALSE(MatchPattern(Diamond(), Body("%0 = sigmoid(%x); add(exp(%0), log(%y))")));
  EXPECT_FALSE(MatchPattern(Diamond(), Body("%0 = sigmoid(%x); add(exp(%0), nn.softmax(%0))")));
}

TEST(DataflowPattern, DominatedValuesHaveNoOtherUse) {
  Expr inside = Body("%0 = sigmoid(%x); %1 = exp(%0); (add(%1, log(%0)), %1)");
  Expr partitioned = PartitionPattern(Diamond(), inside);
  EXPECT_TRUE(partitioned.same_as(inside)) << Text(partitioned);
  Expr parent = Body("%0 = sigmoid(%x); (add(exp(%0), log(%0)), %0)");
  EXPECT_TRUE(PartitionPattern(Diamond(), parent).same_as(parent));
}

TEST(DataflowPattern, GivesWhatThePatternsStandFor) {
  DFPattern x = Wildcard(), y = IsConstant();
  DFMatch match;
  Expr body = Body("add(2f, exp(%x))");
  ASSERT_TRUE(MatchPattern(x + y, body, &match));
  EXPECT_EQ(Text(match.at(x)[0]), Text(Body("exp(%x)")));
  EXPECT_EQ(Text(match.at(y)[0]), Text(Body("2f")));
}

TEST(DataflowPattern, RewritesUntilNothingChanges) {
  DFPattern x = Wildcard();
  DFPatternCallback rule;
  rule.pattern = Relu(Relu(x));
  rule.rewrite = [&](const Expr&, const Expr&, const DFMatch& match) {
    return Expr(Call(Op::Get("nn.relu"), {match.at(x)[0]}));
  };
  Expr result = RewritePatterns({rule}, Body("nn.relu(nn.relu(nn.relu(nn.relu(%x))))"));
  EXPECT_TRUE(MatchPattern(Relu(IsVar("x")), result)) << Text(result);
}

TEST(DataflowPattern, RewritesWithRewrittenInputs) {
  DFPattern x = Wildcard();
  DFPatternCallback rule;
  rule.pattern = IsOp("exp")({x});
  rule.rewrite_once = true;
  rule.rewrite = [&](const Expr&, const Expr&, const DFMatch& match) {
    return Expr(Call(Op::Get("log"), {match.at(x)[0]}));
  };
  Expr result = RewritePatterns({rule}, Body("add(exp(sqrt(exp(%x))), %y)"));
  DFPattern log = IsOp("log")({IsOp("sqrt")({IsOp("log")({IsVar("x")})})});
  EXPECT_TRUE(MatchPattern(log + IsVar("y"), result)) << Text(result);
}

TEST(DataflowPattern, SaysWhenRulesUndoEachOther) {
  auto swap = [](const char* from, const char* to) {
    DFPattern x = Wildcard();
    DFPatternCallback rule;
    rule.pattern = IsOp(from)({x});
    rule.rewrite = [x, to](const Expr&, const Expr&, const DFMatch& match) {
      return Expr(Call(Op::Get(to), {match.at(x)[0]}));
    };
    return rule;
  };
  DFPattern x = Wildcard();
  DFPatternCallback grow;
  grow.pattern = IsOp("exp")({x});
  grow.rewrite = [x](const Expr&, const Expr&, const DFMatch& match) {
    return Expr(Call(Op::Get("exp"), {Call(Op::Get("log"), {match.at(x)[0]})}));
  };
  EXPECT_THAT([&] { RewritePatterns({grow}, Body("exp(%x)")); },
              ::testing::ThrowsMessage<Error>(HasSubstr("doesn't end")));
  EXPECT_TRUE(MatchPattern(IsOp("exp")({Wildcard()}),
                           RewritePatterns({swap("exp", "log"), swap("log", "exp")}, Body("exp(%x)"))));
}

TEST(DataflowPattern, PartitionsIntoFunctions) {
  DFPattern pattern = Relu(Wildcard() + IsConstant());
  Expr result =
      PartitionPattern(pattern, Body("exp(nn.relu(add(sqrt(%x), 1f)))"), {{"Composite", String("t.add_relu")}});
  const std::string text = Text(result);
  EXPECT_THAT(text, HasSubstr("PartitionedFromPattern=\"add_nn.relu_\""));
  EXPECT_THAT(text, HasSubstr("Composite=\"t.add_relu\""));
  EXPECT_THAT(text, HasSubstr("add(%FunctionVar_0_0, 1f)"));
}

TEST(DataflowPattern, PartitionsOnlyWhatTheCheckAccepts) {
  Expr body = Body("exp(exp(%x))");
  int asked = 0;
  Expr result = PartitionPattern(IsOp("exp")({Wildcard()}), body, {}, [&](const Expr&) { return ++asked > 2; });
  EXPECT_TRUE(result.same_as(body));
  EXPECT_EQ(asked, 2);
}

TEST(DataflowPattern, MatchesThatOverlapArePartitionedOnce) {
  Expr result = PartitionPattern(Relu(Relu(Wildcard())), Body("nn.relu(nn.relu(nn.relu(%x)))"));
  int functions = 0;
  PostOrderVisit(result, [&](const Expr& e) { functions += e.as<FunctionNode>() != nullptr; });
  EXPECT_EQ(functions, 1) << Text(result);
}

TEST(DataflowPattern, ValuesUsedElsewhereStayOutside) {
  Expr body = Body("%0 = add(%x, %y); (nn.relu(%0), %0)");
  EXPECT_TRUE(PartitionPattern(Relu(Wildcard() + Wildcard()), body).same_as(body));
}

TEST(DataflowPattern, CommutingOperandsDontMultiply) {
  // Each level can be tried in two orders, and it fails at the bottom.
  Body("%x");  // registers the operators
  DFPattern pattern = IsVar("none");
  std::string text = "%0 = add(%x, %y);";
  for (int i = 0; i < 60; ++i) {
    pattern = pattern + Wildcard();
    text += StrCat("%", i + 1, " = add(%", i, ", %", i, ");");
  }
  EXPECT_FALSE(MatchPattern(pattern, Body(text + "%60")));
  DFPattern ends = IsVar("x") + IsVar("y");
  for (int i = 0; i < 60; ++i) ends = ends + ends;
  EXPECT_TRUE(MatchPattern(ends, Body(text + "%60")));
}

TEST(DataflowPattern, DeepGraphsAndPatterns) {
  constexpr int kDepth = 200000;
  Expr chain = Body("%x");
  for (int i = 0; i < kDepth; ++i) chain = Call(Op::Get("exp"), {chain});
  DFPatternCallback rule;
  DFPattern x = IsVar();
  rule.pattern = IsOp("exp")({x});
  rule.rewrite_once = true;
  rule.rewrite = [&](const Expr&, const Expr&, const DFMatch& match) { return match.at(x)[0]; };
  size_t calls = 0;
  PostOrderVisit(RewritePatterns({rule}, chain), [&](const Expr& e) { calls += e.as<CallNode>() != nullptr; });
  EXPECT_EQ(calls, static_cast<size_t>(kDepth - 1));
  DFPattern path = CallOfAny(IsOp("exp"));
  EXPECT_TRUE(MatchPattern(Dominates(IsVar("x"), path, path), chain));
}

}  // namespace
}  // namespace treadle::testing
