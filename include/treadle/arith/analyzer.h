// SPDX-License-Identifier: Apache-2.0
// What can be known about integer expressions: bounds, divisibility, normal forms, proofs of comparisons.
//
// Index arithmetic (int32, int64) is taken not to overflow, as its authors check sizes; expressions that read integers
// from buffers and all other integer dtypes may wrap, so only what holds under wrapping is done to them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "treadle/ir/prim_ops.h"

namespace treadle::arith {

/// An interval of integers, both ends included.
struct ConstIntBound {
  static constexpr int64_t kPosInf = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kNegInf = std::numeric_limits<int64_t>::min();
  int64_t min = kNegInf;
  int64_t max = kPosInf;
  bool is_point() const { return min == max; }
  bool is_finite() const { return min != kNegInf && max != kPosInf; }
};

/// The integers coeff * k + base. coeff 0: just base. coeff 1: all.
struct ModularSet {
  int64_t coeff = 1;
  int64_t base = 0;
};

/// An interval whose ends are expressions; a null end is infinite.
struct IntSet {
  PrimExpr min = PrimExpr(ObjectPtr<Object>());
  PrimExpr max = PrimExpr(ObjectPtr<Object>());
  static IntSet Everything() { return IntSet(); }
  static IntSet Point(PrimExpr x) { return {x, x}; }
  static IntSet FromRange(const tir::Range& range);
  bool is_everything() const { return !min.defined() && !max.defined(); }
  bool is_bounded() const { return min.defined() && max.defined(); }
};

class AnalyzerImpl;

class Analyzer {
 public:
  Analyzer();
  ~Analyzer();
  Analyzer(const Analyzer&) = delete;
  Analyzer& operator=(const Analyzer&) = delete;

  /// Declares that the variable lies in the range, replacing what was known of it.
  void Bind(const tir::Var& var, const tir::Range& range);
  void Bind(const tir::Var& var, ConstIntBound bound);
  /// Declares that the variable equals the expression: it is replaced when simplifying.
  void BindValue(const tir::Var& var, const PrimExpr& value);
  /// Declares that nothing is known (and that it may hold data read at run time).
  void BindData(const tir::Var& var);

  ConstIntBound Bound(const PrimExpr& expr);
  ModularSet Modular(const PrimExpr& expr);
  /// An equal expression in normal form: linear index arithmetic, constants folded, conditions decided where they can.
  PrimExpr Simplify(const PrimExpr& expr);

  /// Whether the condition holds for all values of the variables in their ranges. False: unknown.
  bool CanProve(const PrimExpr& condition);
  bool CanProveEqual(const PrimExpr& a, const PrimExpr& b);
  bool CanProveNonNegative(const PrimExpr& expr);
  bool CanProveLess(const PrimExpr& a, const PrimExpr& b);
  bool CanProveLessEqual(const PrimExpr& a, const PrimExpr& b);
  /// a - b where that is a constant.
  std::optional<int64_t> ConstDifference(const PrimExpr& a, const PrimExpr& b);

  /// The values that `expr` takes while the variables for which `domain` gives a set run through it. The others stay
  /// symbolic. May be too large, never too small.
  IntSet EvalSet(const PrimExpr& expr, const std::function<std::optional<IntSet>(const tir::Var&)>& domain);

  /// Coefficients of `expr` as a linear form of `vars`: [coefficient of each..., rest without them]. Empty where it
  /// isn't linear in them. Symbolic coefficients are allowed.
  std::vector<PrimExpr> DetectLinear(const PrimExpr& expr, const std::vector<tir::Var>& vars);

  /// While alive, the condition is taken to hold.
  class Constraint {
   public:
    Constraint(Analyzer& analyzer, const PrimExpr& condition);
    ~Constraint();
    Constraint(const Constraint&) = delete;
    Constraint& operator=(const Constraint&) = delete;

   private:
    Analyzer& analyzer_;
    size_t depth_;
  };

 private:
  std::unique_ptr<AnalyzerImpl> impl_;
};

/// Deep equality of scalar expressions (free variables by identity, no renaming).
bool ExprDeepEqual(const PrimExpr& a, const PrimExpr& b);
/// Whether a variable for which `is_wanted` holds occurs in `expr`.
bool UsesVar(const PrimExpr& expr, const std::function<bool(const tir::VarNode*)>& is_wanted);
/// Whether `expr` reads memory or calls anything.
bool ReadsData(const PrimExpr& expr);

}  // namespace treadle::arith
