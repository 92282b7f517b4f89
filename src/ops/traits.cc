// SPDX-License-Identifier: Apache-2.0
#include "treadle/ops/traits.h"

#include "ops/layout_rules.h"

namespace treadle::ops {

using relay::MixedPrecisionKind;

int NumResultsOf(const Op& op, const Attrs& attrs) {
  const auto* stated = op.GetAttr(kNumResults);
  return stated == nullptr ? 0 : (*stated)(attrs);
}

FiniteRule FiniteRuleOf(const Op& op) { return op.GetAttr(kFiniteRule, FiniteRule::kNever); }

ScaleRule ScaleRuleOf(const Op& op) { return op.GetAttr(kScaleRule, ScaleRule::kNever); }

ValueRule ValueRuleOf(const Op& op) { return op.GetAttr(kValueRule, ValueRule::kComputes); }

std::optional<MixedPrecisionKind> MixedPrecisionRuleOf(const Op& op) {
  if (const auto* stated = op.GetAttr(relay::kMixedPrecision)) return *stated;
  if (op.GetAttr(kOpPattern, OpPatternKind::kOpaque) <= OpPatternKind::kInjective) return MixedPrecisionKind::kFollow;
  return std::nullopt;
}

relay::FLayoutRule LayoutRuleOf(const Op& op) {
  if (const auto* stated = op.GetAttr(relay::kLayoutRule)) return *stated;
  const OpPatternKind pattern = op.GetAttr(kOpPattern, OpPatternKind::kOpaque);
  if (pattern == OpPatternKind::kElemWise && op->num_inputs == 1) return ElementwiseLayoutRule;
  if (pattern == OpPatternKind::kBroadcast && op->num_inputs >= 2 && op->attrs_type == nullptr) {
    return BroadcastLayoutRule;
  }
  return nullptr;
}

}  // namespace treadle::ops
