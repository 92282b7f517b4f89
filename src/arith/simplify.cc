// SPDX-License-Identifier: Apache-2.0
// Normal form of index arithmetic.
#include <algorithm>
#include <numeric>

#include "arith/analyzer_impl.h"

namespace treadle::arith {

using namespace tir;  // NOLINT(google-build-using-namespace)

namespace {

/// Splits form = multiple + rest where every term of `multiple` (and its constant) is divisible by c.
void SplitMultiples(const LinearForm& form, int64_t c, LinearForm* quotient, LinearForm* rest) {
  *quotient = LinearForm::Const(form.dtype, FloorDivInt(form.constant, c));
  *rest = LinearForm::Const(form.dtype, FloorModInt(form.constant, c));
  for (const Term& t : form.terms) {
    if (t.coeff % c == 0) {
      quotient->AddTerm({t.coeff / c, t.factors});
    } else {
      rest->AddTerm(t);
    }
  }
}

/// The greatest common divisor of the coefficients; 0 for constants.
int64_t GcdOfCoefficients(const LinearForm& form) {
  int64_t g = 0;
  for (const Term& t : form.terms) g = std::gcd(g, t.coeff);
  return g;
}

}  // namespace

bool AnalyzerImpl::IsData(const PrimExpr& e) const {
  if (ReadsData(e)) return true;
  return UsesVar(e, [this](const VarNode* v) {
    auto it = vars.find(v);
    return it != vars.end() && it->second.is_data;
  });
}

bool AnalyzerImpl::IsData(const LinearForm& form) const {
  for (const Term& t : form.terms) {
    for (const PrimExpr& factor : t.factors) {
      if (IsData(factor)) return true;
    }
  }
  return false;
}

LinearForm AnalyzerImpl::Linearize(const PrimExpr& e) {
  if (const auto* imm = e.as<IntImmNode>()) return LinearForm::Const(e.dtype(), imm->value);
  if (const auto* var = e.as<VarNode>()) {
    auto it = vars.find(var);
    if (it != vars.end()) {
      if (it->second.value.defined()) return Linearize(it->second.value);
      if (it->second.bound.is_point()) return LinearForm::Const(e.dtype(), it->second.bound.min);
    }
    return LinearForm::Atom(e);
  }
  if (const auto* axis = e.as<IterVarNode>()) return Linearize(axis->var);
  return WithEnoughStack([&]() -> LinearForm {
    if (const auto* op = e.as<AddNode>()) {
      LinearForm form = Linearize(op->a);
      form.Add(Linearize(op->b));
      FoldDivModPairs(form);
      return form;
    }
    if (const auto* op = e.as<SubNode>()) {
      LinearForm form = Linearize(op->a);
      form.Add(Linearize(op->b), -1);
      FoldDivModPairs(form);
      return form;
    }
    if (const auto* op = e.as<MulNode>()) {
      LinearForm a = Linearize(op->a), b = Linearize(op->b);
      if (b.is_const()) {
        a.Scale(b.constant);
        return a;
      }
      if (a.is_const()) {
        b.Scale(a.constant);
        return b;
      }
      if (auto product = LinearForm::Product(a, b)) return *product;
      return LinearForm::Atom(Mul(a.ToExpr(), b.ToExpr()));
    }
    if (const auto* op = e.as<FloorDivNode>()) return LinearFloorDiv(Linearize(op->a), Linearize(op->b));
    if (const auto* op = e.as<FloorModNode>()) return LinearFloorMod(Linearize(op->a), Linearize(op->b));
    if (const auto* op = e.as<DivNode>()) {
      LinearForm a = Linearize(op->a), b = Linearize(op->b);
      if (!IsData(a) && !IsData(b) && Bound(a).min >= 0 && Bound(b).min > 0) return LinearFloorDiv(a, b);
      PrimExpr q = is_const_int(op->b, 0) ? PrimExpr(Div(a.ToExpr(), b.ToExpr())) : div(a.ToExpr(), b.ToExpr());
      return q.as<IntImmNode>() ? LinearForm::Const(e.dtype(), q.as<IntImmNode>()->value) : LinearForm::Atom(q);
    }
    if (const auto* op = e.as<ModNode>()) {
      LinearForm a = Linearize(op->a), b = Linearize(op->b);
      if (!IsData(a) && !IsData(b) && Bound(a).min >= 0 && Bound(b).min > 0) return LinearFloorMod(a, b);
      PrimExpr r = is_const_int(op->b, 0) ? PrimExpr(Mod(a.ToExpr(), b.ToExpr())) : truncmod(a.ToExpr(), b.ToExpr());
      return r.as<IntImmNode>() ? LinearForm::Const(e.dtype(), r.as<IntImmNode>()->value) : LinearForm::Atom(r);
    }
    if (const auto* op = e.as<MinNode>()) return LinearMinMax(Linearize(op->a), Linearize(op->b), true);
    if (const auto* op = e.as<MaxNode>()) return LinearMinMax(Linearize(op->a), Linearize(op->b), false);
    PrimExpr simplified = ExprMutator::VisitExpr(e);
    if (simplified.same_as(e) || simplified->type_info() == e->type_info()) {
      if (const auto* imm = simplified.as<IntImmNode>()) return LinearForm::Const(e.dtype(), imm->value);
      return LinearForm::Atom(simplified);
    }
    return Linearize(simplified);
  });
}

std::optional<LinearForm> AnalyzerImpl::MergeFloorDivs(const LinearForm& x, int64_t c) {
  const FloorDivNode* inner = nullptr;
  const int64_t* a = nullptr;
  LinearForm others = LinearForm::Const(x.dtype, x.constant);
  for (const Term& t : x.terms) {
    const auto* div = t.coeff == 1 && t.factors.size() == 1 ? t.factors[0].as<FloorDivNode>() : nullptr;
    const int64_t* divisor = div ? AsConstInt(div->b) : nullptr;
    if (inner == nullptr && divisor != nullptr && *divisor > 0) {
      inner = div;
      a = divisor;
    } else {
      others.AddTerm(t);
    }
  }
  int64_t product;
  if (inner == nullptr || __builtin_mul_overflow(*a, c, &product)) return std::nullopt;
  LinearForm z = Linearize(inner->a);
  z.Add(others, *a);
  if (z.overflow) return std::nullopt;
  return LinearFloorDiv(z, LinearForm::Const(x.dtype, product));
}

namespace {

/// x = d * quotient + rest, where rest has the terms that don't have d's factors.
void SplitByTerm(const LinearForm& x, const Term& d, LinearForm* quotient, LinearForm* rest) {
  *quotient = LinearForm::Const(x.dtype, 0);
  *rest = LinearForm::Const(x.dtype, x.constant);
  for (const Term& t : x.terms) {
    Term left{t.coeff, t.factors};
    bool divisible = t.coeff % d.coeff == 0;
    for (const PrimExpr& factor : d.factors) {
      auto at = std::find_if(left.factors.begin(), left.factors.end(),
                             [&](const PrimExpr& f) { return ExprDeepEqual(f, factor); });
      divisible &= at != left.factors.end();
      if (!divisible) break;
      left.factors.erase(at);
    }
    if (!divisible) {
      rest->AddTerm(t);
      continue;
    }
    left.coeff = t.coeff / d.coeff;
    if (left.factors.empty()) {
      quotient->constant += left.coeff;
    } else {
      quotient->AddTerm(left);
    }
  }
}

}  // namespace

std::pair<LinearForm, int64_t> AnalyzerImpl::WithoutSmallTerms(const LinearForm& x, int64_t c) {
  for (const Term& t : x.terms) {
    const int64_t g = std::gcd(t.coeff, c);
    if (g <= 1) continue;
    LinearForm large, small;
    SplitMultiples(x, g, &large, &small);
    const ConstIntBound b = Bound(small);
    if (b.is_finite() && b.min >= 0 && b.max < g) return {large, c / g};
  }
  return {x, c};
}

LinearForm AnalyzerImpl::LinearFloorDiv(const LinearForm& x, const LinearForm& y) {
  auto atom = [&](const LinearForm& a) {
    if (!y.is_const() || y.constant != 0) {
      PrimExpr q = floordiv(a.ToExpr(), y.ToExpr());
      if (const auto* imm = q.as<IntImmNode>()) return LinearForm::Const(x.dtype, imm->value);
      return LinearForm::Atom(q);
    }
    return LinearForm::Atom(FloorDiv(a.ToExpr(), y.ToExpr()));
  };
  if (x.overflow || y.overflow) return atom(x);
  if (!y.is_const()) {
    if (IsData(x) || IsData(y)) return atom(x);
    // x = y * q + rest with 0 <= rest < y, terms being divisible when they have y's factors.
    if (y.terms.size() == 1 && y.constant == 0) {
      LinearForm quotient, rest;
      SplitByTerm(x, y.terms[0], &quotient, &rest);
      LinearForm gap = y;
      gap.Add(rest, -1);
      gap.constant -= 1;
      if (rest.is_const() && rest.constant == 0) return quotient;
      if (ProveNonNegative(rest) && ProveNonNegative(gap)) return quotient;
      if (!quotient.is_const() || quotient.constant != 0) {
        quotient.Add(atom(rest));
        return quotient;
      }
    }
    // Of a sum, (n + 2): x = y * q + rest, where q is what one of its terms is multiplied by in x.
    for (const Term& term : y.terms) {
      LinearForm quotient, others;
      SplitByTerm(x, term, &quotient, &others);
      if (quotient.is_const() && quotient.constant == 0) continue;
      const auto product = LinearForm::Product(quotient, y);
      if (!product) continue;
      LinearForm rest = x, gap = y;
      rest.Add(*product, -1);
      gap.Add(rest, -1);
      gap.constant -= 1;
      if (ProveNonNegative(rest) && ProveNonNegative(gap)) return quotient;
    }
    return atom(x);
  }
  int64_t c = y.constant;
  if (c <= 0) return atom(x);
  if (c == 1) return x;
  if (x.is_const()) return LinearForm::Const(x.dtype, FloorDivInt(x.constant, c));
  if (IsData(x)) return atom(x);
  LinearForm quotient, rest;
  SplitMultiples(x, c, &quotient, &rest);
  ConstIntBound b = Bound(rest);
  if (b.is_finite() && FloorDivInt(b.min, c) == FloorDivInt(b.max, c)) {
    quotient.constant += FloorDivInt(b.min, c);
    return quotient;
  }
  // floor((g y + k) / (g d)) = floor((y + floor(k / g)) / d)
  int64_t g = std::gcd(GcdOfCoefficients(rest), c);
  if (g > 1) {
    for (Term& t : rest.terms) t.coeff /= g;
    rest.constant = FloorDivInt(rest.constant, g);
    LinearForm reduced = LinearFloorDiv(rest, LinearForm::Const(x.dtype, c / g));
    reduced.Add(quotient);
    return reduced;
  }
  // floor((g y + r) / (g d)) = floor(y / d) where 0 <= r < g
  if (const auto [large, divisor] = WithoutSmallTerms(rest, c); divisor != c) {
    LinearForm reduced = LinearFloorDiv(large, LinearForm::Const(x.dtype, divisor));
    reduced.Add(quotient);
    return reduced;
  }
  // floor((floor(z / a) + w) / c) = floor((z + a w) / (a c))
  if (auto merged = MergeFloorDivs(rest, c)) {
    merged->Add(quotient);
    return *merged;
  }
  // floor((z mod (a c)) / c) = floor(z / c) mod a
  if (rest.constant == 0 && rest.terms.size() == 1 && rest.terms[0].coeff == 1 && rest.terms[0].factors.size() == 1) {
    if (const auto* inner = rest.terms[0].factors[0].as<FloorModNode>()) {
      const int64_t* a = AsConstInt(inner->b);
      if (a && *a > 0 && *a % c == 0) {
        LinearForm outer = LinearFloorDiv(Linearize(inner->a), LinearForm::Const(x.dtype, c));
        LinearForm result = LinearFloorMod(outer, LinearForm::Const(x.dtype, *a / c));
        result.Add(quotient);
        return result;
      }
    }
  }
  LinearForm result = atom(rest);
  result.Add(quotient);
  return result;
}

LinearForm AnalyzerImpl::LinearFloorMod(const LinearForm& x, const LinearForm& y) {
  auto atom = [&](const LinearForm& a) {
    if (y.is_const() && y.constant == 0) return LinearForm::Atom(FloorMod(a.ToExpr(), y.ToExpr()));
    PrimExpr r = floormod(a.ToExpr(), y.ToExpr());
    if (const auto* imm = r.as<IntImmNode>()) return LinearForm::Const(x.dtype, imm->value);
    return LinearForm::Atom(r);
  };
  if (x.overflow || y.overflow || IsData(x)) return atom(x);
  if (!y.is_const()) {
    LinearForm q = LinearFloorDiv(x, y);
    // x - y q, where the division came out without remainder of its own.
    for (const Term& t : q.terms) {
      for (const PrimExpr& f : t.factors) {
        if (f.as<FloorDivNode>() && ExprDeepEqual(f.as<FloorDivNode>()->b, y.ToExpr())) return atom(x);
      }
    }
    auto product = LinearForm::Product(q, y);
    if (!product) return atom(x);
    LinearForm result = x;
    result.Add(*product, -1);
    return result;
  }
  int64_t c = y.constant;
  if (c <= 0) return atom(x);
  if (c == 1) return LinearForm::Const(x.dtype, 0);
  if (x.is_const()) return LinearForm::Const(x.dtype, FloorModInt(x.constant, c));
  LinearForm quotient, rest;
  SplitMultiples(x, c, &quotient, &rest);
  ConstIntBound b = Bound(rest);
  if (b.is_finite() && FloorDivInt(b.min, c) == FloorDivInt(b.max, c)) {
    rest.constant -= FloorDivInt(b.min, c) * c;
    return rest;
  }
  // (g y + k) mod (g d) = g ((y + k / g) mod d) + k mod g
  int64_t g = std::gcd(GcdOfCoefficients(rest), c);
  if (g > 1) {
    int64_t low = FloorModInt(rest.constant, g);
    for (Term& t : rest.terms) t.coeff /= g;
    rest.constant = FloorDivInt(rest.constant, g);
    LinearForm reduced = LinearFloorMod(rest, LinearForm::Const(x.dtype, c / g));
    reduced.Scale(g);
    reduced.constant += low;
    return reduced;
  }
  // (z mod (a c)) mod c = z mod c
  if (rest.terms.size() == 1 && rest.terms[0].coeff == 1 && rest.terms[0].factors.size() == 1) {
    if (const auto* inner = rest.terms[0].factors[0].as<FloorModNode>()) {
      const int64_t* a = AsConstInt(inner->b);
      if (a && *a > 0 && *a % c == 0) {
        LinearForm z = Linearize(inner->a);
        z.constant += rest.constant;
        return LinearFloorMod(z, y);
      }
    }
  }
  // Coefficients may be reduced modulo c; negative ones are left, as they read better.
  for (Term& t : rest.terms) {
    if (t.coeff > c) t.coeff %= c;
  }
  return atom(rest);
}

LinearForm AnalyzerImpl::LinearMinMax(const LinearForm& x, const LinearForm& y, bool is_min) {
  LinearForm difference = x;
  difference.Add(y, -1);
  if (!IsData(difference)) {
    std::optional<int> sign = Sign(difference);
    if (sign) {
      bool x_is_less = *sign == 0 || *sign == -1 || *sign == -2;
      return x_is_less == is_min ? x : y;
    }
  }
  PrimExpr a = x.ToExpr(), b = y.ToExpr();
  PrimExpr result = is_min ? min(a, b) : max(a, b);
  if (const auto* imm = result.as<IntImmNode>()) return LinearForm::Const(x.dtype, imm->value);
  return LinearForm::Atom(result);
}

/// floordiv(x, c) * (c a) + floormod(x, c) * a = x * a, for symbolic c and a, too
void AnalyzerImpl::FoldDivModPairs(LinearForm& form) {
  if (form.overflow || form.terms.size() < 2) return;
  for (size_t i = 0; i < form.terms.size(); ++i) {
    // Of a product, such as a row's index times its dynamic length, all other factors are common to both.
    const std::vector<PrimExpr>& factors = form.terms[i].factors;
    const auto at =
        std::find_if(factors.begin(), factors.end(), [](const PrimExpr& f) { return f.as<FloorModNode>(); });
    if (at == factors.end()) continue;
    const auto* mod = at->as<FloorModNode>();
    LinearForm common = LinearForm::Const(form.dtype, form.terms[i].coeff);
    if (factors.size() > 1) {
      Term others{form.terms[i].coeff, {}};
      for (auto f = factors.begin(); f != factors.end(); ++f) {
        if (f != at) others.factors.push_back(*f);
      }
      common = LinearForm::Const(form.dtype, 0);
      common.AddTerm(others);
    }
    LinearForm inner = Linearize(mod->a), divisor = Linearize(mod->b);
    if (!divisor.is_const() && IsData(divisor)) continue;  // which may be 0, where quotient and remainder are
    // The term that the division (in its normal form) contributes, with coefficient c * a.
    LinearForm quotient = LinearFloorDiv(inner, divisor);
    if (divisor.is_const()) {
      // Of x mod c, coefficients may have been reduced: any y with y = x modulo c has the same.
      for (const Term& t : form.terms) {
        const auto* div = t.factors.size() == 1 ? t.factors[0].as<FloorDivNode>() : nullptr;
        if (div == nullptr || !ExprDeepEqual(div->b, mod->b)) continue;
        LinearForm whole = Linearize(div->a), difference = whole;
        difference.Add(inner, -1);
        bool same = !difference.overflow && difference.constant % divisor.constant == 0;
        for (const Term& d : difference.terms) same &= d.coeff % divisor.constant == 0;
        if (!same) continue;
        inner = whole;
        quotient = LinearForm::Atom(t.factors[0]);
        break;
      }
    }
    if (quotient.terms.empty()) continue;
    auto scaled = LinearForm::Product(quotient, divisor);
    if (scaled) scaled = LinearForm::Product(*scaled, common);
    const auto whole = LinearForm::Product(inner, common);
    if (!scaled || !whole) continue;
    LinearForm candidate = form;
    candidate.AddTerm(form.terms[i], -1);
    candidate.Add(*scaled, -1);
    if (candidate.overflow || candidate.terms.size() + quotient.terms.size() + 1 > form.terms.size()) continue;
    candidate.Add(*whole);
    if (candidate.overflow) continue;
    form = candidate;
    FoldDivModPairs(form);
    return;
  }
}

namespace {

size_t CountTermsAndDivisions(const LinearForm& form) {
  size_t count = form.terms.size();
  for (const Term& t : form.terms) {
    count += std::any_of(t.factors.begin(), t.factors.end(),
                         [](const PrimExpr& f) { return f.as<FloorDivNode>() || f.as<FloorModNode>(); });
  }
  return count;
}

}  // namespace

/// Writes floor((a y + z) / c) as (a div c) y + floor(((a mod c) y + z) / c): quotients whose dividends differ by
/// multiples of the divisor become one.
LinearForm AnalyzerImpl::ReduceDividends(const LinearForm& form) {
  LinearForm reduced = LinearForm::Const(form.dtype, form.constant);
  reduced.overflow = form.overflow;
  for (const Term& t : form.terms) {
    const auto* div = t.factors.size() == 1 ? t.factors[0].as<FloorDivNode>() : nullptr;
    const int64_t* c = div ? AsConstInt(div->b) : nullptr;
    if (c == nullptr || *c <= 0) {
      reduced.AddTerm(t);
      continue;
    }
    const LinearForm dividend = Linearize(div->a);
    LinearForm quotient = LinearForm::Const(form.dtype, 0), rest = LinearForm::Const(form.dtype, dividend.constant);
    for (const Term& part : dividend.terms) {
      quotient.AddTerm({FloorDivInt(part.coeff, *c), part.factors});
      rest.AddTerm({FloorModInt(part.coeff, *c), part.factors});
    }
    if (dividend.overflow || quotient.terms.empty()) {
      reduced.AddTerm(t);
      continue;
    }
    quotient.Add(LinearFloorDiv(rest, LinearForm::Const(form.dtype, *c)));
    reduced.Add(quotient, t.coeff);
  }
  return reduced;
}

/// Writes x mod c as x - c floor(x / c), which shows when the digits of one number were taken apart and put together
/// again. The result is kept where it has fewer terms and quotients.
void AnalyzerImpl::EliminateMods(LinearForm& form) {
  if (form.overflow || form.terms.size() < 2) return;
  LinearForm plain = LinearForm::Const(form.dtype, form.constant);
  bool found = false;
  for (const Term& t : form.terms) {
    const auto* mod = t.factors.size() == 1 ? t.factors[0].as<FloorModNode>() : nullptr;
    const int64_t* c = mod ? AsConstInt(mod->b) : nullptr;
    if (c == nullptr || *c <= 0) {
      plain.AddTerm(t);
      continue;
    }
    found = true;
    LinearForm inner = Linearize(mod->a);
    plain.Add(inner, t.coeff);
    LinearForm multiple = LinearFloorDiv(inner, LinearForm::Const(form.dtype, *c));
    multiple.Scale(*c);
    plain.Add(multiple, -t.coeff);
    if (plain.overflow || multiple.overflow) return;
  }
  if (!found) return;
  plain = ReduceDividends(plain);
  if (!plain.overflow && CountTermsAndDivisions(plain) < CountTermsAndDivisions(form)) form = plain;
}

// ---- As rewriting of expressions ----

PrimExpr AnalyzerImpl::VisitExpr(const PrimExpr& e) {
  if (e.as<IntImmNode>() || e.as<FloatImmNode>()) return e;
  return ExprMutator::VisitExpr(e);
}

PrimExpr AnalyzerImpl::VisitExpr_(const VarNode* op) {
  auto it = vars.find(op);
  if (it != vars.end()) {
    if (it->second.value.defined()) return it->second.value;
    if (it->second.bound.is_point()) return make_const(op->dtype, it->second.bound.min);
  }
  return GetRef<PrimExpr>(op);
}

template <typename Ref, typename Node>
PrimExpr AnalyzerImpl::SimplifySum(const Node* op) {
  if (IsIndexType(op->dtype)) {
    LinearForm form = Linearize(GetRef<PrimExpr>(op));
    if constexpr (std::is_same_v<Node, AddNode> || std::is_same_v<Node, SubNode>) EliminateMods(form);
    if (!form.overflow) {
      PrimExpr result = form.ToExpr();
      return ExprDeepEqual(result, GetRef<PrimExpr>(op)) ? GetRef<PrimExpr>(op) : result;
    }
  }
  PrimExpr a = VisitExpr(op->a), b = VisitExpr(op->b);
  if constexpr (std::is_same_v<Node, AddNode> || std::is_same_v<Node, SubNode> || std::is_same_v<Node, MulNode>) {
    // Ramps and broadcasts stay ramps and broadcasts.
    const auto* ra = a.as<RampNode>();
    const auto* rb = b.as<RampNode>();
    const auto* ba = a.as<BroadcastNode>();
    const auto* bb = b.as<BroadcastNode>();
    constexpr bool kMul = std::is_same_v<Node, MulNode>;
    auto combine = [&](const PrimExpr& x, const PrimExpr& y) -> PrimExpr { return VisitExpr(Ref(x, y)); };
    if (ba && bb) return Broadcast(combine(ba->value, bb->value), ba->lanes);
    if (op->dtype.is_int()) {
      if (!kMul && ra && rb) return Ramp(combine(ra->base, rb->base), combine(ra->stride, rb->stride), ra->lanes);
      if (ra && bb) {
        return Ramp(combine(ra->base, bb->value), kMul ? combine(ra->stride, bb->value) : ra->stride, ra->lanes);
      }
      if (rb && ba && !std::is_same_v<Node, SubNode>) {
        return Ramp(combine(ba->value, rb->base), kMul ? combine(ba->value, rb->stride) : rb->stride, rb->lanes);
      }
    }
  }
  if (a.same_as(op->a) && b.same_as(op->b)) return GetRef<PrimExpr>(op);
  if constexpr (std::is_same_v<Node, AddNode>)
    return add(a, b);
  else if constexpr (std::is_same_v<Node, SubNode>)
    return sub(a, b);
  else if constexpr (std::is_same_v<Node, MulNode>)
    return mul(a, b);
  else if constexpr (std::is_same_v<Node, DivNode>)
    return is_const_int(b, 0) ? PrimExpr(Div(a, b)) : div(a, b);
  else if constexpr (std::is_same_v<Node, ModNode>)
    return is_const_int(b, 0) ? PrimExpr(Mod(a, b)) : truncmod(a, b);
  else if constexpr (std::is_same_v<Node, FloorDivNode>)
    return is_const_int(b, 0) ? PrimExpr(FloorDiv(a, b)) : floordiv(a, b);
  else
    return is_const_int(b, 0) ? PrimExpr(FloorMod(a, b)) : floormod(a, b);
}

PrimExpr AnalyzerImpl::VisitExpr_(const AddNode* op) { return SimplifySum<Add>(op); }
PrimExpr AnalyzerImpl::VisitExpr_(const SubNode* op) { return SimplifySum<Sub>(op); }
PrimExpr AnalyzerImpl::VisitExpr_(const MulNode* op) { return SimplifySum<Mul>(op); }
PrimExpr AnalyzerImpl::VisitExpr_(const DivNode* op) { return SimplifySum<Div>(op); }
PrimExpr AnalyzerImpl::VisitExpr_(const ModNode* op) { return SimplifySum<Mod>(op); }
PrimExpr AnalyzerImpl::VisitExpr_(const FloorDivNode* op) { return SimplifySum<FloorDiv>(op); }
PrimExpr AnalyzerImpl::VisitExpr_(const FloorModNode* op) { return SimplifySum<FloorMod>(op); }

template <typename Ref, typename Node>
PrimExpr AnalyzerImpl::SimplifyMinMax(const Node* op) {
  constexpr bool kIsMin = std::is_same_v<Node, MinNode>;
  if (IsIndexType(op->dtype)) {
    LinearForm form = LinearMinMax(Linearize(op->a), Linearize(op->b), kIsMin);
    if (!form.overflow) {
      PrimExpr result = form.ToExpr();
      return ExprDeepEqual(result, GetRef<PrimExpr>(op)) ? GetRef<PrimExpr>(op) : result;
    }
  }
  PrimExpr a = VisitExpr(op->a), b = VisitExpr(op->b);
  if (a.same_as(op->a) && b.same_as(op->b)) return GetRef<PrimExpr>(op);
  return kIsMin ? min(a, b) : max(a, b);
}
PrimExpr AnalyzerImpl::VisitExpr_(const MinNode* op) { return SimplifyMinMax<Min>(op); }
PrimExpr AnalyzerImpl::VisitExpr_(const MaxNode* op) { return SimplifyMinMax<Max>(op); }

PrimExpr AnalyzerImpl::VisitExpr_(const CastNode* op) {
  PrimExpr value = VisitExpr(op->value);
  // A widening index cast of a widening index cast is one; casts of constants fold.
  if (const auto* inner = value.as<CastNode>()) {
    if (IsIndexType(op->dtype) && IsIndexType(inner->dtype) && inner->value.dtype().is_int() &&
        inner->value.dtype().bits() <= inner->dtype.bits() && inner->dtype.bits() <= op->dtype.bits()) {
      return cast(op->dtype, inner->value);
    }
  }
  if (value.same_as(op->value)) return GetRef<PrimExpr>(op);
  return cast(op->dtype, value);
}

}  // namespace treadle::arith
