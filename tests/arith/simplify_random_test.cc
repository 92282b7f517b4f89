// SPDX-License-Identifier: Apache-2.0
// Random index expressions keep their value when simplified, and lie within their bounds.
#include <gtest/gtest.h>

#include <random>

#include "tests_common/eval_expr.h"
#include "tests_common/random_index_expr.h"
#include "treadle/arith/analyzer.h"

namespace treadle::arith {
namespace {

using testing_util::EvalInt;
using tir::Var;

TEST(SimplifyRandom, ValuesAndBoundsHold) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    testing_util::IndexExprGenerator generate([&] { return static_cast<unsigned>(random()); });
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
