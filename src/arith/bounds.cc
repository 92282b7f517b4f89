// SPDX-License-Identifier: Apache-2.0
// Constant bounds, divisibility and signs of integer expressions.
#include <algorithm>
#include <numeric>

#include "arith/analyzer_impl.h"

namespace treadle::arith {

using namespace tir;  // NOLINT(google-build-using-namespace)

namespace {
constexpr int64_t kPosInf = ConstIntBound::kPosInf;
constexpr int64_t kNegInf = ConstIntBound::kNegInf;
bool IsInf(int64_t x) { return x == kPosInf || x == kNegInf; }
}  // namespace

int64_t SatAdd(int64_t a, int64_t b) {
  if (IsInf(a)) return a;
  if (IsInf(b)) return b;
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) return a > 0 ? kPosInf : kNegInf;
  return result;
}

int64_t SatMul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  bool positive = (a > 0) == (b > 0);
  if (IsInf(a) || IsInf(b)) return positive ? kPosInf : kNegInf;
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) return positive ? kPosInf : kNegInf;
  return result;
}

ConstIntBound BoundOfType(DataType dtype) {
  if (dtype.is_bool()) return {0, 1};
  if (!dtype.is_integral() || dtype.bits() >= 64) {
    return dtype.is_uint() && dtype.bits() < 64 ? ConstIntBound{0, kPosInf} : ConstIntBound{};
  }
  if (dtype.is_uint()) return {0, (int64_t{1} << dtype.bits()) - 1};
  if (dtype.bits() >= 32) return {};
  return {-(int64_t{1} << (dtype.bits() - 1)), (int64_t{1} << (dtype.bits() - 1)) - 1};
}

namespace {

ConstIntBound Scale(ConstIntBound b, int64_t c) {
  if (c >= 0) return {SatMul(b.min, c), SatMul(b.max, c)};
  return {SatMul(b.max, c), SatMul(b.min, c)};
}

int64_t FloorDivSat(int64_t a, int64_t c) { return IsInf(a) ? a : FloorDivInt(a, c); }

ConstIntBound Product(ConstIntBound a, ConstIntBound b) {
  int64_t corners[4] = {SatMul(a.min, b.min), SatMul(a.min, b.max), SatMul(a.max, b.min), SatMul(a.max, b.max)};
  return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
}

/// Bounds of a computation of a dtype that wraps: known only where nothing can wrap.
ConstIntBound Guard(DataType dtype, ConstIntBound b) {
  ConstIntBound type = BoundOfType(dtype);
  if (b.min >= type.min && b.max <= type.max) return b;
  return type;
}

ConstIntBound FloorQuotient(DataType dtype, ConstIntBound a, ConstIntBound b) {
  if (b.min <= 0) return BoundOfType(dtype);
  if (b.is_point()) return {FloorDivSat(a.min, b.min), FloorDivSat(a.max, b.min)};
  return {a.min >= 0 ? 0 : a.min, a.max < 0 ? -1 : FloorDivSat(a.max, b.min)};
}

ConstIntBound FloorRemainder(DataType dtype, ConstIntBound a, ConstIntBound b) {
  if (b.min <= 0) return BoundOfType(dtype);
  if (a.min >= 0 && a.max < b.min) return a;
  return {0, b.max == kPosInf ? (a.min >= 0 ? a.max : kPosInf) : std::min(b.max - 1, a.min >= 0 ? a.max : kPosInf)};
}

/// Rounded towards zero.
ConstIntBound Quotient(DataType dtype, ConstIntBound a, ConstIntBound b) {
  if (b.min <= 0) return BoundOfType(dtype);
  int64_t low = a.min >= 0 ? 0 : a.min, high = a.max <= 0 ? 0 : a.max;
  if (b.is_point() && !IsInf(a.min)) low = a.min / b.min;
  if (b.is_point() && !IsInf(a.max)) high = a.max / b.min;
  return {low, high};
}

ConstIntBound Remainder(DataType dtype, ConstIntBound a, ConstIntBound b) {
  if (b.min <= 0) return BoundOfType(dtype);
  int64_t limit = b.max == kPosInf ? kPosInf : b.max - 1;
  int64_t low = a.min >= 0 ? 0 : (limit == kPosInf ? a.min : std::max(a.min, -limit));
  return {low, a.max <= 0 ? 0 : std::min(a.max, limit)};
}

}  // namespace

ConstIntBound AnalyzerImpl::Bound(const PrimExpr& e) {
  if (const auto* imm = e.as<IntImmNode>()) return {imm->value, imm->value};
  DataType dtype = e.dtype();
  if (!dtype.is_integral()) return {};
  if (const auto* var = e.as<VarNode>()) {
    auto it = vars.find(var);
    if (it == vars.end()) return BoundOfType(dtype);
    if (it->second.value.defined()) return Bound(it->second.value);
    ConstIntBound b = it->second.bound;
    if (it->second.min.defined()) b.min = std::max(b.min, Bound(it->second.min).min);
    if (it->second.max.defined()) b.max = std::min(b.max, Bound(it->second.max).max);
    return b;
  }
  if (const auto* op = e.as<AddNode>()) {
    ConstIntBound a = Bound(op->a), b = Bound(op->b);
    return Guard(dtype, {SatAdd(a.min, b.min), SatAdd(a.max, b.max)});
  }
  if (const auto* op = e.as<SubNode>()) {
    ConstIntBound a = Bound(op->a), b = Scale(Bound(op->b), -1);
    return Guard(dtype, {SatAdd(a.min, b.min), SatAdd(a.max, b.max)});
  }
  if (const auto* op = e.as<MulNode>()) return Guard(dtype, Product(Bound(op->a), Bound(op->b)));
  if (const auto* op = e.as<FloorDivNode>()) return FloorQuotient(dtype, Bound(op->a), Bound(op->b));
  if (const auto* op = e.as<FloorModNode>()) return FloorRemainder(dtype, Bound(op->a), Bound(op->b));
  if (const auto* op = e.as<DivNode>()) return Quotient(dtype, Bound(op->a), Bound(op->b));
  if (const auto* op = e.as<ModNode>()) return Remainder(dtype, Bound(op->a), Bound(op->b));
  if (const auto* op = e.as<MinNode>()) {
    ConstIntBound a = Bound(op->a), b = Bound(op->b);
    return {std::min(a.min, b.min), std::min(a.max, b.max)};
  }
  if (const auto* op = e.as<MaxNode>()) {
    ConstIntBound a = Bound(op->a), b = Bound(op->b);
    return {std::max(a.min, b.min), std::max(a.max, b.max)};
  }
  if (const auto* op = e.as<SelectNode>()) {
    ConstIntBound a = Bound(op->true_value), b = Bound(op->false_value);
    return {std::min(a.min, b.min), std::max(a.max, b.max)};
  }
  if (const auto* op = e.as<CastNode>()) {
    if (!op->value.dtype().is_integral()) return BoundOfType(dtype);
    return Guard(dtype, Bound(op->value));
  }
  if (const auto* op = e.as<CallNode>()) {
    if (IsCallTo(op, "tir.if_then_else")) {
      ConstIntBound a = Bound(op->args[1]), b = Bound(op->args[2]);
      return {std::min(a.min, b.min), std::max(a.max, b.max)};
    }
    if (IsCallTo(op, "tir.bitwise_and")) {
      ConstIntBound b = Bound(op->args[1]);
      if (b.is_point() && b.min >= 0) return {0, b.min};
    }
    if (IsCallTo(op, "tir.shift_right")) {
      ConstIntBound a = Bound(op->args[0]), b = Bound(op->args[1]);
      if (a.min >= 0 && b.is_point() && b.min >= 0 && b.min < 63)
        return {a.min >> b.min, IsInf(a.max) ? a.max : a.max >> b.min};
    }
  }
  return BoundOfType(dtype);
}

namespace {
/// Sum of two lower (or upper) ends; `unknown` where one is infinite or the sum overflows.
int64_t AddEnd(int64_t a, int64_t b, int64_t unknown) {
  int64_t result;
  if (IsInf(a) || IsInf(b) || __builtin_add_overflow(a, b, &result)) return unknown;
  return result;
}
}  // namespace

// Pairs floordiv(x + a, c) - floordiv(x, c) lie in [floor(a / c), ceil(a / c)], closer than their parts.
ConstIntBound AnalyzerImpl::Bound(const LinearForm& form) {
  if (form.overflow) return {};
  ConstIntBound sum{form.constant, form.constant};
  std::vector<bool> done(form.terms.size(), false);
  for (size_t i = 0; i < form.terms.size(); ++i) {
    if (done[i]) continue;
    const Term& t = form.terms[i];
    const auto* di = t.factors.size() == 1 ? t.factors[0].as<FloorDivNode>() : nullptr;
    const int64_t* ci = di ? AsConstInt(di->b) : nullptr;
    if (ci && *ci > 0) {
      for (size_t j = i + 1; j < form.terms.size(); ++j) {
        const Term& u = form.terms[j];
        const auto* dj =
            !done[j] && u.factors.size() == 1 && u.coeff == -t.coeff ? u.factors[0].as<FloorDivNode>() : nullptr;
        if (dj == nullptr || !ExprDeepEqual(di->b, dj->b)) continue;
        LinearForm difference = Linearize(di->a);
        difference.Add(Linearize(dj->a), -1);
        ConstIntBound d = Bound(difference);
        if (!d.is_finite()) continue;
        int64_t low = FloorDivInt(d.min, *ci), high = -FloorDivInt(-d.max, *ci);
        ConstIntBound b = Scale({low, high}, t.coeff);
        sum = {AddEnd(sum.min, b.min, kNegInf), AddEnd(sum.max, b.max, kPosInf)};
        done[i] = done[j] = true;
        break;
      }
      if (done[i]) continue;
    }
    ConstIntBound b = Bound(t.factors[0]);
    for (size_t k = 1; k < t.factors.size(); ++k) b = Product(b, Bound(t.factors[k]));
    b = Scale(b, t.coeff);
    sum = {AddEnd(sum.min, b.min, kNegInf), AddEnd(sum.max, b.max, kPosInf)};
  }
  return sum;
}

// ---- Divisibility ----

namespace {

ModularSet Normal(int64_t coeff, int64_t base) {
  if (coeff < 0) coeff = -coeff;
  if (coeff != 0) base = FloorModInt(base, coeff);
  return {coeff, base};
}

/// (c1 k + b1)(c2 l + b2): every cross term is a multiple of the gcd.
ModularSet Product(const ModularSet& m, const ModularSet& f) {
  int64_t x, y, z, b;
  if (__builtin_mul_overflow(m.coeff, f.coeff, &x) || __builtin_mul_overflow(m.coeff, f.base, &y) ||
      __builtin_mul_overflow(m.base, f.coeff, &z) || __builtin_mul_overflow(m.base, f.base, &b)) {
    return {};
  }
  return Normal(std::gcd(std::gcd(x, y), z), b);
}

}  // namespace

ModularSet AnalyzerImpl::Modular(const LinearForm& form) {
  if (form.overflow) return {};
  int64_t coeff = 0, base = form.constant;
  for (const Term& t : form.terms) {
    ModularSet m{0, 1};
    for (const PrimExpr& factor : t.factors) m = Product(m, Modular(factor));
    int64_t c, b;
    if (__builtin_mul_overflow(m.coeff, t.coeff, &c) || __builtin_mul_overflow(m.base, t.coeff, &b) ||
        __builtin_add_overflow(base, b, &base)) {
      return {};
    }
    coeff = std::gcd(coeff, c);
  }
  return Normal(coeff, base);
}

ModularSet AnalyzerImpl::Modular(const PrimExpr& e) {
  if (const auto* imm = e.as<IntImmNode>()) return {0, imm->value};
  if (e.as<AddNode>() || e.as<SubNode>()) return IsIndexType(e.dtype()) ? Modular(Linearize(e)) : ModularSet{};
  // Not of its linear form: products of sums are terms of those as they are.
  if (const auto* op = e.as<MulNode>()) {
    return IsIndexType(e.dtype()) ? Product(Modular(op->a), Modular(op->b)) : ModularSet{};
  }
  if (const auto* op = e.as<FloorModNode>()) {
    const int64_t* c = AsConstInt(op->b);
    if (c && *c > 0) {
      ModularSet m = Modular(op->a);
      return m.coeff == 0 ? ModularSet{0, FloorModInt(m.base, *c)} : Normal(std::gcd(m.coeff, *c), m.base);
    }
  }
  if (const auto* op = e.as<FloorDivNode>()) {
    const int64_t* c = AsConstInt(op->b);
    if (c && *c > 0) {
      ModularSet m = Modular(op->a);
      if (m.coeff % *c == 0) return Normal(m.coeff / *c, FloorDivInt(m.base, *c));
    }
  }
  if (const auto* op = e.as<SelectNode>()) {
    ModularSet a = Modular(op->true_value), b = Modular(op->false_value);
    int64_t g = std::gcd(std::gcd(a.coeff, b.coeff), a.base > b.base ? a.base - b.base : b.base - a.base);
    return Normal(g, a.base);
  }
  if (const auto* op = e.as<CastNode>()) {
    if (op->value.dtype().is_integral() && IsIndexType(e.dtype())) return Modular(op->value);
  }
  if (const auto* var = e.as<VarNode>()) {
    auto it = vars.find(var);
    if (it != vars.end() && it->second.value.defined()) return Modular(it->second.value);
    if (it != vars.end() && it->second.bound.is_point()) return {0, it->second.bound.min};
  }
  return {};
}

// ---- Signs ----

bool AnalyzerImpl::ProveFromFacts(const LinearForm& form) {
  // Divisions in a fact are taken apart by proofs of their own, without end where they are what is being proved.
  constexpr int kMaxNested = 2;
  if (nested_fact_proofs_ == kMaxNested) return false;
  ++nested_fact_proofs_;
  bool proven = false;
  // By number: conditions within a term add facts while it is looked at.
  for (size_t i = 0, count = facts.size(); i < count && !proven; ++i) {
    if (facts[i].dtype != form.dtype) continue;
    LinearForm rest = form;
    rest.Add(facts[i], -1);
    proven = Bound(rest).min >= 0;
  }
  --nested_fact_proofs_;
  return proven;
}

bool AnalyzerImpl::ProveNonNegative(const LinearForm& form, int depth) {
  if (form.overflow) return false;
  if (Bound(form).min >= 0) return true;
  if (ProveFromFacts(form)) return true;
  if (depth >= 4) return false;
  // Replaces a variable by the symbolic end of its range at which the form is least.
  for (const Term& t : form.terms) {
    for (size_t k = 0; k < t.factors.size(); ++k) {
      const auto* var = t.factors[k].as<VarNode>();
      if (var == nullptr) continue;
      auto it = vars.find(var);
      if (it == vars.end()) continue;
      int64_t sign = t.coeff;
      bool known = true;
      for (size_t j = 0; j < t.factors.size(); ++j) {
        if (j == k) continue;
        known &= Bound(t.factors[j]).min >= 0;
      }
      const PrimExpr& end = sign > 0 ? it->second.min : it->second.max;
      if (!known || !end.defined()) continue;
      // The variable must not occur elsewhere in the form.
      bool elsewhere = false;
      for (const Term& u : form.terms) {
        int count = 0;
        for (const PrimExpr& f : u.factors) count += UsesVar(f, [&](const VarNode* v) { return v == var; });
        elsewhere |= count > (&u == &t ? 1 : 0);
      }
      if (elsewhere) continue;
      LinearForm replaced = LinearForm::Const(form.dtype, form.constant);
      bool ok = true;
      for (const Term& u : form.terms) {
        if (&u != &t) {
          replaced.AddTerm(u);
          continue;
        }
        LinearForm product = Linearize(end);
        for (size_t j = 0; j < t.factors.size() && ok; ++j) {
          if (j == k) continue;
          auto next = LinearForm::Product(product, LinearForm::Atom(t.factors[j]));
          ok = next.has_value();
          if (ok) product = *next;
        }
        if (ok) replaced.Add(product, t.coeff);
      }
      if (ok && ProveNonNegative(replaced, depth + 1)) return true;
    }
  }
  return false;
}

std::optional<int> AnalyzerImpl::Sign(const LinearForm& form) {
  if (form.overflow) return std::nullopt;
  if (form.is_const()) return form.constant == 0 ? 0 : (form.constant > 0 ? 1 : -1);
  LinearForm less_one = form;
  less_one.Add(LinearForm::Const(form.dtype, 1), -1);
  if (ProveNonNegative(less_one)) return 1;
  LinearForm negated = form;
  negated.Scale(-1);
  LinearForm negated_less_one = negated;
  negated_less_one.Add(LinearForm::Const(form.dtype, 1), -1);
  if (ProveNonNegative(negated_less_one)) return -1;
  if (ProveNonNegative(form)) return 2;
  if (ProveNonNegative(negated)) return -2;
  return std::nullopt;
}

}  // namespace treadle::arith
