// SPDX-License-Identifier: Apache-2.0
#include "tir/shared_conditions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "treadle/arith/analyzer.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::tir {
namespace {

/// Each condition may double what is read.
constexpr size_t kMostConditions = 6;

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
  std::vector<PrimExpr> conditions;
  PostOrderVisit(index, [&](const ObjectRef& node) {
    const auto* select = node.as<SelectNode>();
    if (select == nullptr || conditions.size() > kMostConditions || !select->dtype.is_scalar()) return;
    const PrimExpr& condition = select->condition;
    if (uses_lanes(condition) || !uses_lanes(GetRef<PrimExpr>(select))) return;
    const bool known = std::any_of(conditions.begin(), conditions.end(),
                                   [&](const PrimExpr& other) { return arith::ExprDeepEqual(other, condition); });
    if (!known) conditions.push_back(condition);
  });
  return conditions.empty() || conditions.size() > kMostConditions ? PrimExpr() : conditions[0];
}

PrimExpr TakeSide(const PrimExpr& e, const PrimExpr& condition, bool side) {
  return SideOf(condition, side).Rewrite(e);
}

}  // namespace treadle::tir
