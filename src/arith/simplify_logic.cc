// SPDX-License-Identifier: Apache-2.0
// Conditions: comparisons decided by signs, logic, selections, and facts known from conditions around.
#include <algorithm>

#include "arith/analyzer_impl.h"
#include "ir/scoped_entry.h"

namespace treadle::arith {

using namespace tir;  // NOLINT(google-build-using-namespace)

namespace {

bool IsComparison(const PrimExpr& e) {
  return e.as<EQNode>() || e.as<NENode>() || e.as<LTNode>() || e.as<LENode>() || e.as<GTNode>() || e.as<GENode>();
}

/// a and b of a comparison.
template <typename F>
bool WithOperands(const PrimExpr& e, F&& f) {
  if (const auto* op = e.as<LTNode>()) return f(op->a, op->b, "<");
  if (const auto* op = e.as<LENode>()) return f(op->a, op->b, "<=");
  if (const auto* op = e.as<GTNode>()) return f(op->a, op->b, ">");
  if (const auto* op = e.as<GENode>()) return f(op->a, op->b, ">=");
  if (const auto* op = e.as<EQNode>()) return f(op->a, op->b, "==");
  if (const auto* op = e.as<NENode>()) return f(op->a, op->b, "!=");
  return false;
}

}  // namespace

std::optional<bool> AnalyzerImpl::DecideCompare(const PrimExprNode* op, const PrimExpr& a, const PrimExpr& b) {
  if (!a.dtype().is_integral() || !a.dtype().is_scalar()) return std::nullopt;
  std::optional<int> sign;
  ConstIntBound x = Bound(a), y = Bound(b);
  if (x.max < y.min)
    sign = -1;
  else if (x.min > y.max)
    sign = 1;
  else if (x.is_point() && y.is_point() && x.min == y.min)
    sign = 0;
  else if (x.max <= y.min)
    sign = -2;
  else if (x.min >= y.max)
    sign = 2;
  if (!sign && ExprDeepEqual(a, b) && HasNoSideEffect(a)) sign = 0;
  if ((!sign || *sign == 2 || *sign == -2) && IsIndexType(a.dtype())) {
    LinearForm difference = Linearize(a);
    difference.Add(Linearize(b), -1);
    FoldDivModPairs(difference);
    if (!IsData(difference)) {
      if (std::optional<int> better = Sign(difference)) sign = better;
      if (!sign || *sign == 2 || *sign == -2) {
        ModularSet m = Modular(difference);
        bool never_zero = m.coeff == 0 ? m.base != 0 : m.base % m.coeff != 0;
        if (never_zero && sign) sign = *sign == 2 ? 1 : -1;
        if (never_zero && !sign) {
          if (op->IsInstance<EQNode>()) return false;
          if (op->IsInstance<NENode>()) return true;
        }
      }
    }
  }
  if (!sign) return std::nullopt;
  int s = *sign;
  if (op->IsInstance<LTNode>()) return s == -1 ? std::optional(true) : (s == -2 ? std::nullopt : std::optional(false));
  if (op->IsInstance<GTNode>()) return s == 1 ? std::optional(true) : (s == 2 ? std::nullopt : std::optional(false));
  if (op->IsInstance<LENode>()) return s == 1 ? std::optional(false) : (s == 2 ? std::nullopt : std::optional(true));
  if (op->IsInstance<GENode>()) return s == -1 ? std::optional(false) : (s == -2 ? std::nullopt : std::optional(true));
  if (s == 2 || s == -2) return std::nullopt;
  if (op->IsInstance<EQNode>()) return s == 0;
  return s != 0;
}

template <typename Ref, typename Node>
PrimExpr AnalyzerImpl::SimplifyCompare(const Node* op) {
  PrimExpr a = VisitExpr(op->a), b = VisitExpr(op->b);
  const int lanes = op->dtype.lanes();
  if (std::optional<bool> decided = DecideCompare(op, a, b)) return make_bool(*decided, lanes);
  PrimExpr result = GetRef<PrimExpr>(op);
  if (!a.same_as(op->a) || !b.same_as(op->b)) {
    if constexpr (std::is_same_v<Node, EQNode>)
      result = equal(a, b);
    else if constexpr (std::is_same_v<Node, NENode>)
      result = not_equal(a, b);
    else if constexpr (std::is_same_v<Node, LTNode>)
      result = less(a, b);
    else if constexpr (std::is_same_v<Node, LENode>)
      result = less_equal(a, b);
    else if constexpr (std::is_same_v<Node, GTNode>)
      result = greater(a, b);
    else
      result = greater_equal(a, b);
  }
  if (IsKnownTrue(result)) return make_bool(true, lanes);
  return result;
}
PrimExpr AnalyzerImpl::VisitExpr_(const EQNode* op) { return SimplifyCompare<EQ>(op); }
PrimExpr AnalyzerImpl::VisitExpr_(const NENode* op) { return SimplifyCompare<NE>(op); }
PrimExpr AnalyzerImpl::VisitExpr_(const LTNode* op) { return SimplifyCompare<LT>(op); }
PrimExpr AnalyzerImpl::VisitExpr_(const LENode* op) { return SimplifyCompare<LE>(op); }
PrimExpr AnalyzerImpl::VisitExpr_(const GTNode* op) { return SimplifyCompare<GT>(op); }
PrimExpr AnalyzerImpl::VisitExpr_(const GENode* op) { return SimplifyCompare<GE>(op); }

bool AnalyzerImpl::IsKnownTrue(const PrimExpr& condition) const {
  for (const PrimExpr& known : true_conditions) {
    if (ExprDeepEqual(known, condition)) return true;
  }
  return false;
}

PrimExpr AnalyzerImpl::VisitExpr_(const AndNode* op) {
  PrimExpr a = VisitExpr(op->a);
  if (is_const_int(a, 0)) return a;
  size_t facts_before = facts.size(), known_before = true_conditions.size();
  // All lanes of `b` are computed: what they load under `a` may not be there without.
  if (op->dtype.is_scalar()) AddFacts(a);
  PrimExpr b = VisitExpr(op->b);
  facts.resize(facts_before);
  true_conditions.resize(known_before);
  if (a.same_as(op->a) && b.same_as(op->b)) return GetRef<PrimExpr>(op);
  return logical_and(a, b);
}

PrimExpr AnalyzerImpl::VisitExpr_(const OrNode* op) {
  PrimExpr a = VisitExpr(op->a);
  if (is_const_int(a, 1)) return a;
  PrimExpr b = VisitExpr(op->b);
  if (a.same_as(op->a) && b.same_as(op->b)) return GetRef<PrimExpr>(op);
  return logical_or(a, b);
}

PrimExpr AnalyzerImpl::VisitExpr_(const NotNode* op) {
  PrimExpr a = VisitExpr(op->a);
  bool integral = false;
  if (IsComparison(a))
    WithOperands(a,
                 [&](const PrimExpr& x, const PrimExpr&, const char*) { return integral = x.dtype().is_integral(); });
  if (integral) {  // floats have NaN: !(a < b) isn't a >= b
    if (const auto* c = a.as<LTNode>()) return VisitExpr(GE(c->a, c->b));
    if (const auto* c = a.as<LENode>()) return VisitExpr(GT(c->a, c->b));
    if (const auto* c = a.as<GTNode>()) return VisitExpr(LE(c->a, c->b));
    if (const auto* c = a.as<GENode>()) return VisitExpr(LT(c->a, c->b));
    if (const auto* c = a.as<EQNode>()) return VisitExpr(NE(c->a, c->b));
    if (const auto* c = a.as<NENode>()) return VisitExpr(EQ(c->a, c->b));
  }
  if (a.same_as(op->a)) return GetRef<PrimExpr>(op);
  return logical_not(a);
}

PrimExpr AnalyzerImpl::VisitExpr_(const SelectNode* op) {
  PrimExpr condition = VisitExpr(op->condition);
  if (is_const_int(condition, 1)) return VisitExpr(op->true_value);
  if (is_const_int(condition, 0)) return VisitExpr(op->false_value);
  PrimExpr t = VisitExpr(op->true_value), f = VisitExpr(op->false_value);
  if (ExprDeepEqual(t, f)) return t;
  if (condition.same_as(op->condition) && t.same_as(op->true_value) && f.same_as(op->false_value)) {
    return GetRef<PrimExpr>(op);
  }
  return select(condition, t, f);
}

PrimExpr AnalyzerImpl::VisitExpr_(const LetNode* op) {
  PrimExpr value = VisitExpr(op->value);
  VarInfo info;
  const bool trivial = value.as<VarNode>() || value.as<IntImmNode>() || value.as<FloatImmNode>();
  if (trivial) {
    info.value = value;
  } else if (value.dtype().is_integral()) {
    info.bound = Bound(value);
    info.is_data = IsData(value);
  }
  ScopedEntry scope(vars, op->var.get(), std::move(info));
  PrimExpr body = VisitExpr(op->body);
  if (trivial) return body;
  if (value.same_as(op->value) && body.same_as(op->body)) return GetRef<PrimExpr>(op);
  return Let(op->var, value, body, op->span);
}

PrimExpr AnalyzerImpl::VisitExpr_(const CallNode* op) {
  if (IsCallTo(op, "tir.if_then_else")) {
    PrimExpr condition = VisitExpr(op->args[0]);
    if (is_const_int(condition, 1)) return VisitExpr(op->args[1]);
    if (is_const_int(condition, 0)) return VisitExpr(op->args[2]);
    size_t facts_before = facts.size(), known_before = true_conditions.size();
    AddFacts(condition);
    PrimExpr t = VisitExpr(op->args[1]);
    facts.resize(facts_before);
    true_conditions.resize(known_before);
    PrimExpr f = VisitExpr(op->args[2]);
    if (condition.same_as(op->args[0]) && t.same_as(op->args[1]) && f.same_as(op->args[2])) return GetRef<PrimExpr>(op);
    return if_then_else(condition, t, f);
  }
  if (IsCallTo(op, "tir.likely")) {
    PrimExpr condition = VisitExpr(op->args[0]);
    if (condition.same_as(op->args[0])) return GetRef<PrimExpr>(op);
    return likely(condition);
  }
  return ExprMutator::VisitExpr_(op);
}

void AnalyzerImpl::AddFacts(const PrimExpr& condition) {
  if (const auto* both = condition.as<AndNode>()) {
    AddFacts(both->a);
    AddFacts(both->b);
    return;
  }
  if (const auto* call = condition.as<CallNode>(); call && IsCallTo(call, "tir.likely")) {
    AddFacts(call->args[0]);
    return;
  }
  if (is_const_int(condition)) return;
  if (!HasNoSideEffect(condition)) return;
  true_conditions.push_back(condition);
  WithOperands(condition, [&](const PrimExpr& a, const PrimExpr& b, const char* op) {
    if (!IsIndexType(a.dtype())) return false;
    LinearForm x = Linearize(a), y = Linearize(b);
    if (IsData(x) || IsData(y)) return false;
    std::string kind = op;
    auto add = [&](const LinearForm& big, const LinearForm& small, int64_t gap) {
      LinearForm fact = big;
      fact.Add(small, -1);
      fact.Add(LinearForm::Const(fact.dtype, gap), -1);
      if (!fact.overflow) facts.push_back(fact);
    };
    if (kind == "<") add(y, x, 1);
    if (kind == "<=" || kind == "==") add(y, x, 0);
    if (kind == ">") add(x, y, 1);
    if (kind == ">=" || kind == "==") add(x, y, 0);
    return true;
  });
}

}  // namespace treadle::arith
