// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "treadle/arith/analyzer.h"

namespace treadle::arith {
namespace {

using tir::Range;
using tir::Var;

class SimplifyTest : public ::testing::Test {
 protected:
  Analyzer analyzer;
  Var i{"i"}, j{"j"}, n{"n"};
  void SetUp() override {
    analyzer.Bind(i, Range(PrimExpr(16)));
    analyzer.Bind(j, Range(PrimExpr(8)));
    analyzer.Bind(n, ConstIntBound{0, ConstIntBound::kPosInf});
  }
  void ExpectSame(const PrimExpr& e, const PrimExpr& expected) {
    EXPECT_TRUE(ExprDeepEqual(analyzer.Simplify(e), analyzer.Simplify(expected)));
  }
};

TEST_F(SimplifyTest, SplitIndexIsRecovered) {
  PrimExpr fused = i * 8 + j;
  ExpectSame(tir::floordiv(fused, 8), i);
  ExpectSame(tir::floormod(fused, 8), j);
}

TEST_F(SimplifyTest, IndexOfRowsWithAMarginIsRecovered) {
  Var rows("rows"), width("width"), row("row"), column("column"), beyond("beyond");
  Analyzer a;
  a.Bind(row, Range(rows));
  a.Bind(column, Range(width + 2));
  a.Bind(beyond, Range(width + 3));
  const PrimExpr pitch = width + 2;
  EXPECT_TRUE(ExprDeepEqual(a.Simplify(tir::floordiv(row * pitch + column, pitch)), row));
  EXPECT_TRUE(ExprDeepEqual(a.Simplify(tir::floormod(row * pitch + column, pitch)), column));
  EXPECT_FALSE(ExprDeepEqual(a.Simplify(tir::floordiv(row * pitch + beyond, pitch)), row));
  EXPECT_FALSE(ExprDeepEqual(a.Simplify(tir::floordiv(row * pitch + column - 1, pitch)), row));
}

TEST_F(SimplifyTest, DivModPairIsRecovered) {
  Var f("f");
  ExpectSame(tir::floordiv(f, 7) * 7 + tir::floormod(f, 7), f);
  ExpectSame(tir::floordiv(f, 12) * 12 + tir::floordiv(tir::floormod(f, 12), 3) * 3 + tir::floormod(f, 3), f);
}

TEST_F(SimplifyTest, DigitsOfAChunkedIndexAreRecovered) {
  // Elements of a tensor, fused into one loop that is divided into chunks of vectors of 16.
  struct Case {
    std::vector<int> dims;
    int chunk;
  };
  const std::vector<Case> cases{{{64, 49, 56}, 224}, {{49, 28, 16}, 196},    {{7, 49, 28, 28}, 49},  {{7, 96, 14}, 196},
                                {{12, 2, 16}, 24},   {{16, 100, 7, 3}, 210}, {{14, 49, 64, 49}, 196}};
  for (const Case& c : cases) {
    int count = 1;
    for (const int dim : c.dims) count *= dim;
    Var chunk("chunk"), vector("vector"), lane("lane");
    Analyzer a;
    a.Bind(chunk, Range(PrimExpr(count / (c.chunk * 16))));
    a.Bind(vector, Range(PrimExpr(c.chunk)));
    a.Bind(lane, Range(PrimExpr(16)));
    const PrimExpr fused = a.Simplify(chunk * (c.chunk * 16) + vector * 16 + lane);
    PrimExpr flat = 0;
    for (size_t k = 0; k < c.dims.size(); ++k) {
      count /= c.dims[k];
      const PrimExpr digit = tir::floordiv(fused, count);
      flat = flat * c.dims[k] + a.Simplify(k == 0 ? digit : tir::floormod(digit, c.dims[k]));
    }
    EXPECT_TRUE(ExprDeepEqual(a.Simplify(flat), fused)) << c.dims[0] << " " << c.chunk;
  }
}

TEST_F(SimplifyTest, TermsBelowTheCommonFactorDontMatter) {
  ExpectSame(tir::floordiv(i * 32 + n * 16 + j, 448), tir::floordiv(i * 2 + n, 28));
  // 8 and above do.
  EXPECT_FALSE(ExprDeepEqual(analyzer.Simplify(tir::floordiv(n * 4 + j, 28)), analyzer.Simplify(tir::floordiv(n, 7))));
}

TEST_F(SimplifyTest, DivModPairIsRecoveredWhereFactorsExceedTheDivisor) {
  Var f("f");
  PrimExpr x = f * 13 + 8;
  PrimExpr row = analyzer.Simplify(tir::floordiv(x, 7)), column = analyzer.Simplify(tir::floormod(x, 7));
  ExpectSame(row * 7 + column, x);
  ExpectSame(row * 56 + column * 8, x * 8);
}

TEST_F(SimplifyTest, DigitsOfASplitIndexAreRecovered) {
  // What flattening gives where a fused loop over 96 x 109 x 109 is split again.
  Var a("a"), b("b"), c("c");
  analyzer.Bind(a, Range(PrimExpr(327)));
  analyzer.Bind(b, Range(PrimExpr(218)));
  analyzer.Bind(c, Range(PrimExpr(16)));
  PrimExpr x = a * 3488 + b * 16 + c;
  PrimExpr first = analyzer.Simplify(tir::floordiv(x, 11881));
  PrimExpr second = analyzer.Simplify(tir::floormod(tir::floordiv(x, 109), 109));
  PrimExpr third = analyzer.Simplify(tir::floormod(x, 109));
  ExpectSame(first * 11881 + second * 109 + third, x);
  ExpectSame(((first * 109) + second) * 109 + third, x);
}

TEST_F(SimplifyTest, IndicesOfSymbolicExtentsAreRecovered) {
  // What flattening gives where loops over rows of dynamic length were fused.
  Var f("f"), rows("rows"), width("width"), planes("planes");
  const PrimExpr row = tir::floordiv(f, width), column = tir::floormod(f, width);
  ExpectSame(row * width + column, f);
  ExpectSame((tir::floordiv(row, rows) * rows + tir::floormod(row, rows)) * width + column, f);
  ExpectSame(tir::floordiv(row, rows) * (rows * width) + tir::floormod(row, rows) * width + column + i, f + i);
  ExpectSame(row * (width * 4) + column * 4, f * 4);
  // Of another extent they aren't.
  EXPECT_FALSE(analyzer.CanProveEqual(row * planes + column, f));
}

TEST_F(SimplifyTest, SymbolicExtentCancels) {
  Var a("a"), b("b");
  analyzer.Bind(b, Range(n));
  ExpectSame(tir::floordiv(a * n + b, n), a);
  ExpectSame(tir::floormod(a * n + b, n), b);
}

TEST_F(SimplifyTest, FactsAboutADivisionEndItsProof) {
  Var f("f");
  analyzer.Bind(f, ConstIntBound{0, ConstIntBound::kPosInf});
  const PrimExpr half = tir::floordiv(f, 2), row = tir::floordiv(half, n);
  Analyzer::Constraint inside(analyzer, tir::floordiv(row, 2) < n);
  EXPECT_TRUE(ExprDeepEqual(analyzer.Simplify(row), row));
}

TEST_F(SimplifyTest, ConditionsAreDecided) {
  EXPECT_TRUE(analyzer.CanProve(i * 8 + j < 128));
  EXPECT_FALSE(analyzer.CanProve(i * 8 + j < 127));
  EXPECT_TRUE(analyzer.CanProve(tir::not_equal(i * 2 + 1, j * 4)));
}

TEST_F(SimplifyTest, ConstraintHoldsInItsScopeOnly) {
  Var a("a");
  {
    Analyzer::Constraint inside(analyzer, a + i < n);
    EXPECT_TRUE(analyzer.CanProve(a + i + 1 <= n));
  }
  EXPECT_FALSE(analyzer.CanProve(a + i + 1 <= n));
}

TEST_F(SimplifyTest, LetBindsItsVariableInItsBodyOnly) {
  // Loop partitioning copies a body: at the border `t` is the padding, inside a load; both copies bind the same
  // variable.
  const Var t("t", DataType::Float(32)), data("data", DataType::Float(32));
  const PrimExpr padding = FloatImm(DataType::Float(32), 0.5);
  const PrimExpr border = tir::Let(t, padding, t + t);
  const PrimExpr inside = tir::Let(t, data * data, t + t);
  EXPECT_TRUE(ExprDeepEqual(analyzer.Simplify(border), analyzer.Simplify(padding + padding)));
  EXPECT_TRUE(ExprDeepEqual(analyzer.Simplify(inside), inside));
  EXPECT_TRUE(ExprDeepEqual(analyzer.Simplify(t), t));
  // An inner binding doesn't end what is known of the outer one.
  const PrimExpr inner = tir::Let(t, data * data, t);
  EXPECT_TRUE(ExprDeepEqual(analyzer.Simplify(tir::Let(t, padding, inner + t)), inner + padding));
}

/// A product of sums is a term of a linear form as it is.
TEST_F(SimplifyTest, ProductsOfSumsAreMultiplesOfTheirFactors) {
  const Var m("m", DataType::Int(64)), n("n", DataType::Int(64));
  auto number = [](int64_t value) { return tir::make_const(DataType::Int(64), value); };
  const PrimExpr product = (m * 4 + n * 8 + number(2)) * (m * 6 + n * 3);
  EXPECT_EQ(analyzer.Modular(product).coeff, 6);
  EXPECT_EQ(analyzer.Modular(product).base, 0);
  EXPECT_EQ(analyzer.Modular(tir::floormod(product, number(4))).coeff, 2);
  EXPECT_TRUE(ExprDeepEqual(analyzer.Simplify(tir::floormod(product, number(3))), number(0)));
}

/// What lanes of the right operand load under the left one as a mask isn't there for others: they are all computed.
TEST_F(SimplifyTest, AVectorIsNoConditionOfWhatFollowsIt) {
  const tir::Buffer buffer = tir::DeclBuffer({PrimExpr(64)}, DataType::Int(32), "a");
  const PrimExpr lanes = tir::Ramp(i, PrimExpr(1), 4), mask = tir::less(lanes, tir::Broadcast(j, 4));
  const PrimExpr load = tir::BufferLoad(buffer, {lanes});
  const PrimExpr masked = tir::CallIntrin(load.dtype(), "tir.masked_load", {load, mask, tir::make_zero(load.dtype())});
  const PrimExpr both = tir::logical_and(mask, tir::less(masked, tir::Broadcast(PrimExpr(3), 4)));
  EXPECT_TRUE(ExprDeepEqual(analyzer.Simplify(both), both));
}

TEST_F(SimplifyTest, DecidedComparisonsOfVectorsAreVectors) {
  const PrimExpr lanes = tir::Ramp(i, PrimExpr(1), 4);
  EXPECT_EQ(analyzer.Simplify(tir::LT(lanes, lanes)).dtype(), DataType::Bool(4));
  EXPECT_EQ(analyzer.Simplify(tir::LE(lanes, lanes)).dtype(), DataType::Bool(4));
}

TEST_F(SimplifyTest, DataMayWrap) {
  auto buffer = tir::DeclBuffer({PrimExpr(4)}, DataType::Int(32), "a");
  PrimExpr x = tir::BufferLoad(buffer, {i});
  PrimExpr doubled = tir::floordiv(x * 2, 2);
  EXPECT_FALSE(ExprDeepEqual(analyzer.Simplify(doubled), x));
}

TEST_F(SimplifyTest, RegionOfFusedLoopHasConstantBound) {
  Var f("f");
  PrimExpr extent = tir::floordiv(f * 32 + 31, 56) - tir::floordiv(f * 32, 56);
  EXPECT_LE(analyzer.Bound(extent).max, 1);
}

}  // namespace
}  // namespace treadle::arith
