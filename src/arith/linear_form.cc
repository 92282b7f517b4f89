// SPDX-License-Identifier: Apache-2.0
#include "arith/linear_form.h"

#include <algorithm>

namespace treadle::arith {

using tir::make_const;

namespace {

/// The summands of nested additions and subtractions; those taken away apart from those added.
void CollectSummands(const PrimExpr& e, bool negative, std::vector<std::pair<PrimExpr, bool>>* out) {
  if (const auto* add = e.as<tir::AddNode>()) {
    CollectSummands(add->a, negative, out);
    CollectSummands(add->b, negative, out);
  } else if (const auto* sub = e.as<tir::SubNode>()) {
    CollectSummands(sub->a, negative, out);
    CollectSummands(sub->b, !negative, out);
  } else {
    out->emplace_back(e, negative);
  }
}

bool SameSum(const PrimExpr& a, const PrimExpr& b) {
  std::vector<std::pair<PrimExpr, bool>> x, y;
  CollectSummands(a, false, &x);
  CollectSummands(b, false, &y);
  if (x.size() != y.size()) return false;
  for (const auto& [summand, negative] : x) {
    auto at = std::find_if(y.begin(), y.end(), [&, negative = negative, &summand = summand](const auto& other) {
      return other.second == negative && ExprDeepEqual(summand, other.first);
    });
    if (at == y.end()) return false;
    y.erase(at);
  }
  return true;
}

/// Equal atoms; the order of the sum inside a division doesn't matter.
bool SameAtom(const PrimExpr& a, const PrimExpr& b) {
  if (ExprDeepEqual(a, b)) return true;
  if (const auto* x = a.as<tir::FloorDivNode>()) {
    const auto* y = b.as<tir::FloorDivNode>();
    return y && ExprDeepEqual(x->b, y->b) && SameSum(x->a, y->a);
  }
  if (const auto* x = a.as<tir::FloorModNode>()) {
    const auto* y = b.as<tir::FloorModNode>();
    return y && ExprDeepEqual(x->b, y->b) && SameSum(x->a, y->a);
  }
  return false;
}

}  // namespace

bool SameFactors(const Term& a, const Term& b) {
  if (a.factors.size() != b.factors.size()) return false;
  if (a.factors.size() == 1) return SameAtom(a.factors[0], b.factors[0]);
  std::vector<bool> used(b.factors.size(), false);
  for (const PrimExpr& factor : a.factors) {
    bool found = false;
    for (size_t i = 0; i < b.factors.size() && !found; ++i) {
      if (!used[i] && ExprDeepEqual(factor, b.factors[i])) used[i] = found = true;
    }
    if (!found) return false;
  }
  return true;
}

LinearForm LinearForm::Const(DataType dtype, int64_t value) {
  LinearForm form;
  form.dtype = dtype;
  form.constant = value;
  return form;
}

LinearForm LinearForm::Atom(const PrimExpr& atom) {
  LinearForm form;
  form.dtype = atom.dtype();
  form.terms.push_back({1, {atom}});
  return form;
}

void LinearForm::AddTerm(const Term& term, int64_t scale) {
  int64_t coeff;
  if (__builtin_mul_overflow(term.coeff, scale, &coeff)) {
    overflow = true;
    return;
  }
  if (coeff == 0) return;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!SameFactors(terms[i], term)) continue;
    if (__builtin_add_overflow(terms[i].coeff, coeff, &terms[i].coeff)) overflow = true;
    if (terms[i].coeff == 0) terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
  terms.push_back({coeff, term.factors});
}

void LinearForm::Add(const LinearForm& other, int64_t scale) {
  int64_t scaled;
  overflow |= other.overflow;
  if (__builtin_mul_overflow(other.constant, scale, &scaled) || __builtin_add_overflow(constant, scaled, &constant)) {
    overflow = true;
  }
  for (const Term& term : other.terms) AddTerm(term, scale);
}

void LinearForm::Scale(int64_t scale) {
  if (scale == 0) {
    *this = Const(dtype, 0);
    return;
  }
  overflow |= __builtin_mul_overflow(constant, scale, &constant);
  for (Term& term : terms) overflow |= __builtin_mul_overflow(term.coeff, scale, &term.coeff);
}

std::optional<LinearForm> LinearForm::Product(const LinearForm& a, const LinearForm& b) {
  if (a.terms.size() * b.terms.size() > 16) return std::nullopt;
  LinearForm result = Const(a.dtype, 0);
  result.overflow = a.overflow || b.overflow;
  result.overflow |= __builtin_mul_overflow(a.constant, b.constant, &result.constant);
  for (const Term& x : a.terms) {
    result.AddTerm(x, b.constant);
    for (const Term& y : b.terms) {
      Term product;
      result.overflow |= __builtin_mul_overflow(x.coeff, y.coeff, &product.coeff);
      product.factors = x.factors;
      product.factors.insert(product.factors.end(), y.factors.begin(), y.factors.end());
      if (product.factors.size() > 6) return std::nullopt;
      result.AddTerm(product);
    }
  }
  for (const Term& y : b.terms) result.AddTerm(y, a.constant);
  return result;
}

PrimExpr LinearForm::ToExpr() const {
  PrimExpr sum{ObjectPtr<Object>()};
  auto product = [&](const Term& term, int64_t coeff) {
    PrimExpr result = term.factors[0];
    for (size_t i = 1; i < term.factors.size(); ++i) result = tir::Mul(result, term.factors[i]);
    if (coeff != 1) result = tir::Mul(result, make_const(dtype, coeff));
    return result;
  };
  for (const Term& term : terms) {
    if (term.coeff < 0) continue;
    PrimExpr x = product(term, term.coeff);
    sum = sum.defined() ? PrimExpr(tir::Add(sum, x)) : x;
  }
  if (!sum.defined() && constant != 0)
    sum = make_const(dtype, constant);
  else if (constant > 0)
    sum = tir::Add(sum, make_const(dtype, constant));
  for (const Term& term : terms) {
    if (term.coeff > 0) continue;
    if (!sum.defined()) {
      sum = product(term, term.coeff);
    } else {
      sum = tir::Sub(sum, product(term, -term.coeff));
    }
  }
  if (!sum.defined()) return make_const(dtype, int64_t{0});
  bool constant_first = true;
  for (const Term& term : terms) constant_first &= term.coeff < 0;
  if (constant < 0 && !constant_first) sum = tir::Sub(sum, make_const(dtype, -constant));
  return sum;
}

}  // namespace treadle::arith
