// SPDX-License-Identifier: Apache-2.0
// Random index expressions keep their value when simplified, and lie within their bounds.
#include <gtest/gtest.h>

#include <random>

#include "tests_common/eval_expr.h"
#include "treadle/arith/analyzer.h"

namespace treadle::arith {
namespace {

using testing_util::EvalInt;
using tir::Var;

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}
  std::vector<Var> vars{Var("i"), Var("j"), Var("k")};

  PrimExpr Expr(int depth) {
    if (depth == 0) return Pick(3) == 0 ? PrimExpr(Pick(20) - 8) : PrimExpr(vars[Pick(3)]);
    PrimExpr a = Expr(depth - 1);
    switch (Pick(10)) {
      case 0:
      case 1:
        return tir::Add(a, Expr(depth - 1));
      case 2:
        return tir::Sub(a, Expr(depth - 1));
      case 3:
      case 4:
        return tir::Mul(a, PrimExpr(Pick(12) - 3));
      case 5:
        return tir::FloorDiv(a, PrimExpr(1 + Pick(9)));
      case 6:
        return tir::FloorMod(a, PrimExpr(1 + Pick(9)));
      case 7:
        return tir::Min(a, Expr(depth - 1));
      case 8:
        return tir::Max(a, Expr(depth - 1));
      default:
        return Pick(2)   ? PrimExpr(tir::Select(Condition(depth - 1), a, Expr(depth - 1)))
               : Pick(2) ? PrimExpr(tir::Div(a, PrimExpr(1 + Pick(9))))
                         : PrimExpr(tir::Mod(a, PrimExpr(1 + Pick(9))));
    }
  }
  PrimExpr Condition(int depth) {
    PrimExpr a = Expr(depth), b = Expr(depth);
    switch (Pick(7)) {
      case 0:
        return tir::LT(a, b);
      case 1:
        return tir::LE(a, b);
      case 2:
        return tir::EQ(a, b);
      case 3:
        return tir::NE(a, b);
      case 4:
        return tir::GE(a, b);
      case 5:
        return depth > 0 ? PrimExpr(tir::And(Condition(depth - 1), Condition(depth - 1))) : tir::GT(a, b);
      default:
        return tir::Not(tir::GT(a, b));
    }
  }
  int Pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

 private:
  std::mt19937 random_;
};

TEST(SimplifyRandom, ValuesAndBoundsHold) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Generator generate(seed);
    int64_t extents[3] = {1 + generate.Pick(7), 1 + generate.Pick(7), 1 + generate.Pick(7)};
    int64_t mins[3] = {generate.Pick(5) - 2, 0, generate.Pick(3)};
    Analyzer analyzer;
    for (int v = 0; v < 3; ++v) {
      analyzer.Bind(generate.vars[v], tir::Range::FromMinExtent(PrimExpr(static_cast<int>(mins[v])),
                                                                PrimExpr(static_cast<int>(extents[v]))));
    }
    PrimExpr e = generate.Pick(4) ? generate.Expr(4) : generate.Condition(3);
    PrimExpr simplified = analyzer.Simplify(e);
    ConstIntBound bound = analyzer.Bound(simplified), original = analyzer.Bound(e);
    ModularSet modular = analyzer.Modular(e);
    IntSet set = analyzer.EvalSet(e, [&](const Var& var) -> std::optional<IntSet> {
      for (int v = 0; v < 2; ++v) {
        if (!var.same_as(generate.vars[v])) continue;
        return IntSet{PrimExpr(static_cast<int>(mins[v])), PrimExpr(static_cast<int>(mins[v] + extents[v] - 1))};
      }
      return std::nullopt;
    });
    for (int64_t i = mins[0]; i < mins[0] + extents[0]; ++i) {
      for (int64_t j = mins[1]; j < mins[1] + extents[1]; ++j) {
        for (int64_t k = mins[2]; k < mins[2] + extents[2]; ++k) {
          testing_util::Env env{{generate.vars[0].get(), i}, {generate.vars[1].get(), j}, {generate.vars[2].get(), k}};
          int64_t expected = EvalInt(e, env);
          ASSERT_EQ(EvalInt(simplified, env), expected) << "seed " << seed;
          ASSERT_LE(bound.min, expected) << "seed " << seed;
          ASSERT_GE(bound.max, expected) << "seed " << seed;
          ASSERT_LE(original.min, expected) << "seed " << seed;
          ASSERT_GE(original.max, expected) << "seed " << seed;
          if (modular.coeff == 0) {
            ASSERT_EQ(modular.base, expected) << "seed " << seed;
          } else {
            ASSERT_EQ((expected - modular.base) % modular.coeff, 0) << "seed " << seed;
          }
          if (set.min.defined()) {
            ASSERT_LE(EvalInt(set.min, env), expected) << "seed " << seed;
          }
          if (set.max.defined()) {
            ASSERT_GE(EvalInt(set.max, env), expected) << "seed " << seed;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace treadle::arith
