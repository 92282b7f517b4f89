// SPDX-License-Identifier: Apache-2.0
// State and parts of the Analyzer: bounds.cc, simplify.cc (linear arithmetic), simplify_logic.cc, int_set.cc.
#pragma once

#include <unordered_map>
#include <vector>

#include "arith/linear_form.h"
#include "treadle/arith/analyzer.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/prim_functor.h"

namespace treadle::arith {

int64_t SatAdd(int64_t a, int64_t b);
int64_t SatMul(int64_t a, int64_t b);
/// Whether index arithmetic rules apply: a scalar int32 or int64.
inline bool IsIndexType(DataType dtype) { return dtype.is_int() && dtype.is_scalar() && dtype.bits() >= 32; }
/// All values of the dtype; infinite for index types.
ConstIntBound BoundOfType(DataType dtype);

class AnalyzerImpl : public tir::ExprMutator {
 public:
  struct VarInfo {
    ConstIntBound bound;
    PrimExpr min{ObjectPtr<Object>()};  ///< symbolic ends, null where constant or unknown
    PrimExpr max{ObjectPtr<Object>()};
    PrimExpr value{ObjectPtr<Object>()};
    bool is_data = false;
  };

  std::unordered_map<const tir::VarNode*, VarInfo> vars;
  std::unordered_map<const tir::VarNode*, tir::Var> keep_alive;
  std::vector<LinearForm> facts;  ///< each is >= 0
  std::vector<PrimExpr> true_conditions;

  // bounds.cc
  ConstIntBound Bound(const PrimExpr& e);
  ConstIntBound Bound(const LinearForm& form);
  ModularSet Modular(const PrimExpr& e);
  ModularSet Modular(const LinearForm& form);
  /// Whether form >= 0 for all values.
  bool ProveNonNegative(const LinearForm& form, int depth = 0);
  /// -1, 0, 1 where the sign of the form is known; 2: >= 0; -2: <= 0; nothing otherwise.
  std::optional<int> Sign(const LinearForm& form);

  // simplify.cc
  PrimExpr Simplify(const PrimExpr& e) { return VisitExpr(e); }
  LinearForm Linearize(const PrimExpr& e);
  /// Whether rules that rely on no overflow may be applied to the operand.
  bool IsData(const PrimExpr& e) const;
  bool IsData(const LinearForm& form) const;
  PrimExpr VisitExpr(const PrimExpr& e) override;

  // simplify_logic.cc
  void AddFacts(const PrimExpr& condition);

 protected:
  using ExprMutator::VisitExpr_;
#define TREADLE_SIMPLIFY(Name) PrimExpr VisitExpr_(const tir::Name##Node* op) override;
  TREADLE_SIMPLIFY(Var)
  TREADLE_SIMPLIFY(Cast)
  TREADLE_SIMPLIFY(Add)
  TREADLE_SIMPLIFY(Sub)
  TREADLE_SIMPLIFY(Mul)
  TREADLE_SIMPLIFY(Div)
  TREADLE_SIMPLIFY(Mod)
  TREADLE_SIMPLIFY(FloorDiv)
  TREADLE_SIMPLIFY(FloorMod)
  TREADLE_SIMPLIFY(Min)
  TREADLE_SIMPLIFY(Max)
  TREADLE_SIMPLIFY(EQ)
  TREADLE_SIMPLIFY(NE)
  TREADLE_SIMPLIFY(LT)
  TREADLE_SIMPLIFY(LE)
  TREADLE_SIMPLIFY(GT)
  TREADLE_SIMPLIFY(GE)
  TREADLE_SIMPLIFY(And)
  TREADLE_SIMPLIFY(Or)
  TREADLE_SIMPLIFY(Not)
  TREADLE_SIMPLIFY(Select)
  TREADLE_SIMPLIFY(Let)
  TREADLE_SIMPLIFY(Call)
#undef TREADLE_SIMPLIFY

 private:
  template <typename Ref, typename Node>
  PrimExpr SimplifySum(const Node* op);
  LinearForm LinearFloorDiv(const LinearForm& x, const LinearForm& y);
  LinearForm LinearFloorMod(const LinearForm& x, const LinearForm& y);
  LinearForm LinearMinMax(const LinearForm& x, const LinearForm& y, bool is_min);
  void FoldDivModPairs(LinearForm& form);
  /// Dividend and divisor of floor(x / c) without a common factor and without terms too small to matter; `x` and `c`
  /// where there are none.
  std::pair<LinearForm, int64_t> WithoutSmallTerms(const LinearForm& x, int64_t c);
  LinearForm ReduceDividends(const LinearForm& form);
  void EliminateMods(LinearForm& form);
  /// floor(x / c) where x has a term that is a division by a constant itself.
  std::optional<LinearForm> MergeFloorDivs(const LinearForm& x, int64_t c);
  template <typename Ref, typename Node>
  PrimExpr SimplifyMinMax(const Node* op);
  /// a `op` b decided by the sign of a - b, or null.
  template <typename Ref, typename Node>
  PrimExpr SimplifyCompare(const Node* op);
  std::optional<bool> DecideCompare(const PrimExprNode* op, const PrimExpr& a, const PrimExpr& b);
  bool IsKnownTrue(const PrimExpr& condition) const;
  bool ProveFromFacts(const LinearForm& form);

  int nested_fact_proofs_ = 0;
};

}  // namespace treadle::arith
