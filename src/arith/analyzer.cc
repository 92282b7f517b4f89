// SPDX-License-Identifier: Apache-2.0
#include "treadle/arith/analyzer.h"

#include "arith/analyzer_impl.h"

namespace treadle::arith {

using namespace tir;  // NOLINT(google-build-using-namespace)

Analyzer::Analyzer() : impl_(std::make_unique<AnalyzerImpl>()) {}
Analyzer::~Analyzer() = default;

void Analyzer::Bind(const Var& var, const Range& range) {
  AnalyzerImpl::VarInfo info;
  PrimExpr min = impl_->Simplify(cast(var.dtype(), range->min));
  PrimExpr max = impl_->Simplify(cast(var.dtype(), range->min + range->extent - 1));
  if (const int64_t* value = AsConstInt(min))
    info.bound.min = *value;
  else
    info.min = min;
  if (const int64_t* value = AsConstInt(max))
    info.bound.max = *value;
  else
    info.max = max;
  if (info.min.defined()) info.bound.min = impl_->Bound(min).min;
  if (info.max.defined()) info.bound.max = impl_->Bound(max).max;
  // An empty range: no iteration ever runs, so anything may be claimed; keep the interval sane.
  if (info.bound.max < info.bound.min) info.bound.max = info.bound.min;
  if (info.bound.is_point() && (info.min.defined() || info.max.defined())) info.bound = {};
  impl_->vars[var.get()] = info;
  impl_->keep_alive[var.get()] = var;
}

void Analyzer::Bind(const Var& var, ConstIntBound bound) {
  AnalyzerImpl::VarInfo info;
  info.bound = bound;
  impl_->vars[var.get()] = info;
  impl_->keep_alive[var.get()] = var;
}

void Analyzer::BindValue(const Var& var, const PrimExpr& value) {
  AnalyzerImpl::VarInfo info;
  info.value = impl_->Simplify(value);
  impl_->vars[var.get()] = info;
  impl_->keep_alive[var.get()] = var;
}

void Analyzer::BindData(const Var& var) {
  AnalyzerImpl::VarInfo info;
  info.bound = BoundOfType(var.dtype());
  info.is_data = true;
  impl_->vars[var.get()] = info;
  impl_->keep_alive[var.get()] = var;
}

ConstIntBound Analyzer::Bound(const PrimExpr& expr) {
  if (IsIndexType(expr.dtype()) && (expr.as<AddNode>() || expr.as<SubNode>()) && !impl_->IsData(expr)) {
    LinearForm form = impl_->Linearize(expr);
    if (!form.overflow) return impl_->Bound(form);
  }
  return impl_->Bound(expr);
}

ModularSet Analyzer::Modular(const PrimExpr& expr) { return impl_->Modular(expr); }

PrimExpr Analyzer::Simplify(const PrimExpr& expr) { return impl_->Simplify(expr); }

bool Analyzer::CanProve(const PrimExpr& condition) {
  if (const auto* call = condition.as<CallNode>(); call && IsCallTo(call, "tir.likely")) return CanProve(call->args[0]);
  return is_const_int(impl_->Simplify(condition), 1);
}

bool Analyzer::CanProveEqual(const PrimExpr& a, const PrimExpr& b) {
  if (ExprDeepEqual(a, b)) return true;
  std::optional<int64_t> difference = ConstDifference(a, b);
  return difference && *difference == 0;
}

namespace {

LinearForm Difference(AnalyzerImpl& impl, const PrimExpr& a, const PrimExpr& b) {
  PrimExpr x = a, y = b;
  MatchTypes(x, y, "-");
  if (!IsIndexType(x.dtype())) {
    LinearForm none;
    none.overflow = true;
    return none;
  }
  return impl.Linearize(Sub(x, y));
}

}  // namespace

std::optional<int64_t> Analyzer::ConstDifference(const PrimExpr& a, const PrimExpr& b) {
  LinearForm form = Difference(*impl_, a, b);
  if (form.overflow || !form.is_const()) return std::nullopt;
  return form.constant;
}

bool Analyzer::CanProveNonNegative(const PrimExpr& expr) { return CanProveLessEqual(make_zero(expr.dtype()), expr); }

bool Analyzer::CanProveLess(const PrimExpr& a, const PrimExpr& b) {
  LinearForm form = Difference(*impl_, b, a);
  form.Add(LinearForm::Const(form.dtype, 1), -1);
  return !form.overflow && impl_->ProveNonNegative(form);
}

bool Analyzer::CanProveLessEqual(const PrimExpr& a, const PrimExpr& b) {
  LinearForm form = Difference(*impl_, b, a);
  return !form.overflow && impl_->ProveNonNegative(form);
}

std::vector<PrimExpr> Analyzer::DetectLinear(const PrimExpr& expr, const std::vector<Var>& vars) {
  if (!IsIndexType(expr.dtype())) return {};
  LinearForm form = impl_->Linearize(expr);
  if (form.overflow) return {};
  std::vector<LinearForm> parts(vars.size() + 1, LinearForm::Const(expr.dtype(), 0));
  parts.back().constant = form.constant;
  for (const Term& t : form.terms) {
    int found = -1;
    Term rest{t.coeff, {}};
    for (const PrimExpr& factor : t.factors) {
      int at = -1;
      for (size_t i = 0; i < vars.size(); ++i) {
        if (factor.same_as(vars[i])) at = static_cast<int>(i);
      }
      bool inside = at < 0 && UsesVar(
                                  factor,
                                  [&](const VarNode* v) {
                                    for (const Var& var : vars) {
                                      if (var.get() == v) return true;
                                    }
                                    return false;
                                  });
      if (inside || (at >= 0 && found >= 0)) return {};
      if (at >= 0)
        found = at;
      else
        rest.factors.push_back(factor);
    }
    LinearForm& part = found < 0 ? parts.back() : parts[found];
    if (rest.factors.empty())
      part.constant += rest.coeff;
    else
      part.AddTerm(rest);
  }
  std::vector<PrimExpr> result;
  for (const LinearForm& part : parts) result.push_back(part.ToExpr());
  return result;
}

Analyzer::Constraint::Constraint(Analyzer& analyzer, const PrimExpr& condition) : analyzer_(analyzer) {
  AnalyzerImpl& impl = *analyzer.impl_;
  depth_ = impl.facts.size() | (impl.true_conditions.size() << 32);
  impl.AddFacts(impl.Simplify(condition));
}

Analyzer::Constraint::~Constraint() {
  analyzer_.impl_->facts.resize(depth_ & 0xffffffff);
  analyzer_.impl_->true_conditions.resize(depth_ >> 32);
}

}  // namespace treadle::arith
