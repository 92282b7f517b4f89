// SPDX-License-Identifier: Apache-2.0
// Index expressions that the input spells keep their value when simplified, and lie within their bounds.
#include <cstdint>
#include <cstdio>

#include "tests_common/eval_expr.h"
#include "tests_common/random_index_expr.h"
#include "treadle/arith/analyzer.h"

using treadle::PrimExpr;
using treadle::testing_util::EvalInt;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  size_t at = 0;
  treadle::testing_util::IndexExprGenerator generate([&] { return at < size ? data[at++] : 0U; });
  int least[3], count[3];
  treadle::arith::Analyzer analyzer;
  for (int v = 0; v < 3; ++v) {
    least[v] = generate.Pick(6) - 2;
    count[v] = 1 + generate.Pick(7);
    analyzer.Bind(generate.vars[static_cast<size_t>(v)],
                  treadle::tir::Range::FromMinExtent(PrimExpr(least[v]), PrimExpr(count[v])));
  }
  const PrimExpr e = generate.Pick(4) != 0 ? generate.Expr(4) : generate.Condition(3);
  const PrimExpr simplified = analyzer.Simplify(e);
  const treadle::arith::ConstIntBound bound = analyzer.Bound(e), simpler = analyzer.Bound(simplified);
  for (int n = 0; n < count[0] * count[1] * count[2]; ++n) {
    const treadle::testing_util::Env env{{generate.vars[0].get(), least[0] + n % count[0]},
                                         {generate.vars[1].get(), least[1] + n / count[0] % count[1]},
                                         {generate.vars[2].get(), least[2] + n / count[0] / count[1]}};
    const int64_t expected = EvalInt(e, env);
    const bool within =
        bound.min <= expected && expected <= bound.max && simpler.min <= expected && expected <= simpler.max;
    if (within && EvalInt(simplified, env) == expected) continue;
    std::fprintf(stderr, "simplified to %lld, not %lld\n", static_cast<long long>(EvalInt(simplified, env)),
                 static_cast<long long>(expected));
    __builtin_trap();
  }
  return 0;
}
