// SPDX-License-Identifier: Apache-2.0
// Dispatch, visitors and mutators of expressions and patterns.
#include <gmock/gmock.h>

#include <map>
#include <type_traits>

#include "relay/typed_builder.h"
#include "treadle/relay/exhaustive_functor.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/pattern_functor.h"

namespace treadle::relay {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Expr Number(int value) { return Constant(NDArray::FromVector<int32_t>({value}, {}, DataType::Int(32))); }

class KindName : public ExprFunctor<std::string(const Expr&)> {
 public:
  std::string VisitExpr_(const TupleNode*) override { return "tuple"; }
};

TEST(ExprFunctor, CallsTheOverrideThroughTheBase) {
  KindName name;
  ExprFunctor<std::string(const Expr&)>& base = name;
  EXPECT_EQ(base(Tuple(Array<Expr>())), "tuple");
}

template <typename Base>
class OfLeaves : public Base {
 public:
#define TREADLE_NUMBER_OF_KIND(Node) \
  int VisitExpr_(const Node*) override { return 1; }
  TREADLE_RELAY_EXPR_KINDS(TREADLE_NUMBER_OF_KIND)
#undef TREADLE_NUMBER_OF_KIND
};
class OfVarsAlone : public ExhaustiveExprFunctor<int(const Expr&)> {
 public:
  using ExhaustiveExprFunctor::VisitExpr_;
  int VisitExpr_(const VarNode*) override { return 1; }
};

TEST(ExhaustiveExprFunctor, IsAbstractUntilAllKindsAreThere) {
  using All = OfLeaves<ExhaustiveExprFunctor<int(const Expr&)>>;
  static_assert(std::is_abstract_v<OfVarsAlone> && !std::is_abstract_v<All>);
  EXPECT_EQ(All()(Tuple(Array<Expr>())), 1);
}

TEST(ExprFunctor, NamesTheKindThatIsMissing) {
  KindName name;
  EXPECT_THAT([&] { name(Number(1)); }, ThrowsMessage<InternalError>(HasSubstr("relay.Constant")));
  EXPECT_THAT([&] { name(Expr()); }, ThrowsMessage<InternalError>(HasSubstr("null expression")));
}

TEST(ExprFunctor, RefusesSecondRegistration) {
  NodeFunctor<int(const ObjectRef&)> table;
  table.set_dispatch<TupleNode>([](const ObjectRef&) { return 1; });
  EXPECT_THROW(table.set_dispatch<TupleNode>([](const ObjectRef&) { return 2; }), InternalError);
}

class Counter : public ExprVisitor {
 public:
  size_t Of(const Expr& expr) const { return visit_counter_.at(expr.get()); }
  size_t distinct() const { return visit_counter_.size(); }
};

TEST(ExprVisitor, CountsEachNodeAndVisitsItOnce) {
  Expr top = Number(1);
  const Expr leaf = top;
  for (int i = 0; i < 60; ++i) top = Tuple({top, top});
  Counter counter;
  counter.VisitExpr(top);
  EXPECT_EQ(counter.distinct(), 61u);
  EXPECT_EQ(counter.Of(leaf), 2u);
  EXPECT_EQ(counter.Of(top), 1u);
}

TEST(ExprMutator, IdentityGivesTheSameObject) {
  Var x("x"), r("r");
  Expr body = Let(r, RefCreate(x), Tuple({RefRead(r), If(Number(1), x, x), TupleGetItem(Tuple({x, x}), 0)}));
  Function func({x}, body);
  EXPECT_TRUE(ExprMutator().Mutate(func).same_as(func));
  EXPECT_TRUE(MixedModeMutator().Mutate(func).same_as(func));
}

class Replacer : public ExprMutator {
 public:
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const ConstantNode*) override {
    ++visits;
    return replacement;
  }
  Expr replacement = Number(7);
  int visits = 0;
};

TEST(ExprMutator, KeepsSharing) {
  Expr one = Number(1);
  Expr pair = Tuple({one, one});
  Replacer replacer;
  Expr result = replacer.Mutate(Tuple({pair, pair}));
  const auto* outer = result.as<TupleNode>();
  EXPECT_TRUE(outer->fields[0].same_as(outer->fields[1]));
  EXPECT_EQ(replacer.visits, 1);
}

Pattern Deep(const Pattern& leaf, int depth) {
  Pattern pattern = leaf;
  for (int i = 0; i < depth; ++i) pattern = PatternTuple({pattern});
  return pattern;
}

class VarCounter : public PatternVisitor {
 public:
  void VisitVar(const Var&) override { ++count; }
  int count = 0;
};

TEST(PatternVisitor, ReachesEveryVariable) {
  VarCounter counter;
  counter(PatternTuple({PatternVar(Var("a")), PatternWildcard(Span()), Deep(PatternVar(Var("b")), 100000)}));
  EXPECT_EQ(counter.count, 2);
}

class Renamer : public PatternMutator {
 public:
  Var VisitVar(const Var& var) override { return Var(var->name_hint() + "_"); }
};

TEST(PatternMutator, RewritesOrReturnsTheSameObject) {
  Pattern pattern = PatternTuple({PatternVar(Var("a")), PatternWildcard(Span())});
  EXPECT_TRUE(PatternMutator().Mutate(pattern).same_as(pattern));
  Pattern renamed = Renamer().Mutate(pattern);
  EXPECT_EQ(renamed.as<PatternTupleNode>()->patterns[0].as<PatternVarNode>()->var->name_hint(), "a_");
  EXPECT_TRUE(renamed.as<PatternTupleNode>()->patterns[1].same_as(pattern.as<PatternTupleNode>()->patterns[1]));
}

class PatternKind : public PatternFunctor<int(const Pattern&)> {};

TEST(PatternFunctor, NamesTheKindThatIsMissing) {
  EXPECT_THAT([] { PatternKind()(PatternWildcard(Span())); },
              ThrowsMessage<InternalError>(HasSubstr("relay.PatternWildcard")));
  EXPECT_THAT([] { PatternKind()(Pattern()); }, ThrowsMessage<InternalError>(HasSubstr("null pattern")));
}

}  // namespace
}  // namespace treadle::relay
