// SPDX-License-Identifier: Apache-2.0
// The set of values of an expression while some of its variables run through sets.
#include "arith/analyzer_impl.h"

namespace treadle::arith {

using namespace tir;  // NOLINT(google-build-using-namespace)

IntSet IntSet::FromRange(const Range& range) {
  if (is_const_int(range->extent, 1)) return Point(range->min);
  return {range->min, range->min + range->extent - 1};
}

namespace {

using Domain = std::function<std::optional<IntSet>(const Var&)>;

class SetEvaluator {
 public:
  SetEvaluator(AnalyzerImpl& impl, const Domain& domain) : impl_(impl), domain_(domain) {}

  IntSet Eval(const PrimExpr& e) {
    if (!Relaxed(e)) return IntSet::Point(e);
    if (!IsIndexType(e.dtype())) return IntSet::Everything();
    return EvalForm(impl_.Linearize(e));
  }

 private:
  bool Relaxed(const PrimExpr& e) const {
    return UsesVar(e, [this](const VarNode* v) { return domain_(GetRef<Var>(v)).has_value(); });
  }

  IntSet EvalForm(const LinearForm& form) {
    if (form.overflow) return IntSet::Everything();
    PrimExpr min = make_const(form.dtype, form.constant), max = min;
    for (const Term& t : form.terms) {
      LinearForm alone = LinearForm::Const(form.dtype, 0);
      alone.AddTerm(t);
      int relaxed = 0;
      size_t which = 0;
      for (size_t i = 0; i < t.factors.size(); ++i) {
        if (Relaxed(t.factors[i])) {
          ++relaxed;
          which = i;
        }
      }
      IntSet part;
      if (relaxed == 0) {
        part = IntSet::Point(alone.ToExpr());
      } else if (relaxed == 1) {
        part = ScaledAtom(t, which);
      }
      min = part.min.defined() && min.defined() ? min + part.min : PrimExpr(ObjectPtr<Object>());
      max = part.max.defined() && max.defined() ? max + part.max : PrimExpr(ObjectPtr<Object>());
    }
    return {min, max};
  }

  IntSet ScaledAtom(const Term& t, size_t which) {
    IntSet atom = EvalAtom(t.factors[which]);
    // The other factors must have a known sign.
    LinearForm scale = LinearForm::Const(t.factors[which].dtype(), 0);
    Term others{t.coeff, {}};
    for (size_t i = 0; i < t.factors.size(); ++i) {
      if (i != which) others.factors.push_back(t.factors[i]);
    }
    if (others.factors.empty())
      scale.constant = t.coeff;
    else
      scale.AddTerm(others);
    std::optional<int> sign = impl_.Sign(scale);
    if (!sign) return IntSet::Everything();
    PrimExpr factor = scale.ToExpr();
    bool positive = *sign == 1 || *sign == 2 || *sign == 0;
    auto times = [&](const PrimExpr& x) { return x.defined() ? x * factor : x; };
    return positive ? IntSet{times(atom.min), times(atom.max)} : IntSet{times(atom.max), times(atom.min)};
  }

  IntSet EvalAtom(const PrimExpr& e) {
    if (const auto* var = e.as<VarNode>()) return *domain_(GetRef<Var>(var));
    if (const auto* op = e.as<FloorDivNode>()) {
      if (Relaxed(op->b) || impl_.Bound(op->b).min <= 0) return IntSet::Everything();
      IntSet a = Eval(op->a);
      auto divided = [&](const PrimExpr& x) { return x.defined() ? floordiv(x, op->b) : x; };
      return {divided(a.min), divided(a.max)};
    }
    if (const auto* op = e.as<FloorModNode>()) {
      if (Relaxed(op->b) || impl_.Bound(op->b).min <= 0) return IntSet::Everything();
      IntSet a = Eval(op->a);
      if (a.is_bounded()) {
        // Within one period the remainder keeps the order.
        PrimExpr q0 = impl_.Simplify(floordiv(a.min, op->b)), q1 = impl_.Simplify(floordiv(a.max, op->b));
        if (ExprDeepEqual(q0, q1)) return {a.min - q0 * op->b, a.max - q0 * op->b};
      }
      return {make_zero(e.dtype()), op->b - 1};
    }
    if (const auto* op = e.as<MinNode>()) {
      IntSet a = Eval(op->a), b = Eval(op->b);
      IntSet result;
      if (a.min.defined() && b.min.defined()) result.min = min(a.min, b.min);
      if (a.max.defined() && b.max.defined())
        result.max = min(a.max, b.max);
      else
        result.max = a.max.defined() ? a.max : b.max;
      return result;
    }
    if (const auto* op = e.as<MaxNode>()) {
      IntSet a = Eval(op->a), b = Eval(op->b);
      IntSet result;
      if (a.max.defined() && b.max.defined()) result.max = max(a.max, b.max);
      if (a.min.defined() && b.min.defined())
        result.min = max(a.min, b.min);
      else
        result.min = a.min.defined() ? a.min : b.min;
      return result;
    }
    if (const auto* op = e.as<SelectNode>()) {
      IntSet a = Eval(op->true_value), b = Eval(op->false_value);
      if (!a.is_bounded() || !b.is_bounded()) return IntSet::Everything();
      return {min(a.min, b.min), max(a.max, b.max)};
    }
    if (const auto* op = e.as<CastNode>()) {
      // Widening keeps order and values.
      if (op->value.dtype().is_int() && op->dtype.is_int() && op->value.dtype().bits() <= op->dtype.bits()) {
        IntSet a = Eval(op->value);
        auto wide = [&](const PrimExpr& x) { return x.defined() ? cast(op->dtype, x) : x; };
        return {wide(a.min), wide(a.max)};
      }
    }
    ConstIntBound b = ReadsData(e) ? ConstIntBound{} : impl_.Bound(e);
    if (b.is_finite()) return {make_const(e.dtype(), b.min), make_const(e.dtype(), b.max)};
    return IntSet::Everything();
  }

  AnalyzerImpl& impl_;
  const Domain& domain_;
};

}  // namespace

IntSet Analyzer::EvalSet(const PrimExpr& expr, const std::function<std::optional<IntSet>(const Var&)>& domain) {
  IntSet set = SetEvaluator(*impl_, domain).Eval(expr);
  if (set.min.defined()) set.min = impl_->Simplify(set.min);
  if (set.max.defined()) set.max = impl_->Simplify(set.max);
  return set;
}

}  // namespace treadle::arith
