// SPDX-License-Identifier: Apache-2.0
#include "tir/shared_conditions.h"

#include <utility>

#include "treadle/arith/analyzer.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::tir {
namespace {

class SideOf : public ExprMutator {
 public:
  SideOf(PrimExpr condition, bool side) : condition_(std::move(condition)), side_(side) {}
  PrimExpr Rewrite(const PrimExpr& e) { return VisitExpr(e); }

 protected:
  using ExprMutator::VisitExpr_;
  PrimExpr VisitExpr_(const SelectNode* op) override {
    if (!arith::ExprDeepEqual(op->condition, condition_)) return ExprMutator::VisitExpr_(op);
    return VisitExpr(side_ ? op->true_value : op->false_value);
  }

 private:
  PrimExpr condition_;
  bool side_;
};

}  // namespace

PrimExpr SharedConditionIn(const PrimExpr& index, const std::function<bool(const PrimExpr&)>& uses_lanes) {
  PrimExpr condition;
  PostOrderVisit(index, [&](const ObjectRef& node) {
    const auto* select = node.as<SelectNode>();
    if (select == nullptr || condition.defined() || !select->dtype.is_scalar()) return;
    if (!uses_lanes(select->condition) && uses_lanes(GetRef<PrimExpr>(select))) condition = select->condition;
  });
  return condition;
}

PrimExpr TakeSide(const PrimExpr& e, const PrimExpr& condition, bool side) {
  return SideOf(condition, side).Rewrite(e);
}

}  // namespace treadle::tir
