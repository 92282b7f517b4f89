// SPDX-License-Identifier: Apache-2.0
// What passes ask about operators beyond their computation (compute.h): typed properties that stand where an operator
// is registered, and what holds for those that don't state one, by their pattern. Gradients: gradient.h.
#pragma once

#include <optional>

#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"
#include "treadle/relay/layout.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::ops {

/// Whether finite operands give finite results (overflow of sums and products aside). Blocked layouts fill the last
/// block of channels with finite numbers, which must stay so: a later convolution multiplies them by 0.
enum class FiniteRule : uint8_t {
  kNever,     ///< zeros or negative numbers may give infinity or NaN, or numbers of common size do (exp)
  kByScalar,  ///< unless the second operand is a tensor: divisors that are one number aren't 0
  kAlways,
};
inline constexpr OpAttrKey<FiniteRule> kFiniteRule{"TFiniteRule"};

/// Whether f(s * x) is s * f(x) for factors s along a dimension that the operator keeps.
enum class ScaleRule : uint8_t { kNever, kPositive, kAlways };
inline constexpr OpAttrKey<ScaleRule> kScaleRule{"TScaleRule"};

/// What elements of the result are to those of the first operand.
enum class ValueRule : uint8_t {
  kComputes,
  kMoves,  ///< each is one of them: the operator commutes with every function of one element
  kPicks,  ///< one of them by their order (the largest): it commutes with increasing functions
};
inline constexpr OpAttrKey<ValueRule> kValueRule{"TValueRule"};

/// Whether an element takes as long as dozens of additions: functions that are series.
inline constexpr OpAttrKey<bool> kCostly{"TCostly"};

/// The operator that computes the same (operands, attributes, type) within the error of fast approximations.
inline constexpr OpAttrKey<const char*> kFastForm{"TFastForm"};

/// What a call is in inference in terms of simpler operators: `call` has rewritten arguments, `data` is the type of its
/// first one. A tuple for a call that gives a tuple.
using FInferenceForm = relay::Expr (*)(const relay::CallNode* call, const TensorTypeNode* data);
inline constexpr OpAttrKey<FInferenceForm> kInferenceForm{"FInferenceForm"};

/// What a call whose shape operands are constants is without them; null where they aren't constants.
using FStaticForm = relay::Expr (*)(const relay::CallNode* call);
inline constexpr OpAttrKey<FStaticForm> kStaticForm{"FStaticForm"};

/// How many tensors the tuple has that a call with these attributes gives; 0 where it gives one tensor and no tuple. As
/// the type rule has it, for those who build calls whose operands have no types yet.
using FNumResults = int (*)(const Attrs&);
inline constexpr OpAttrKey<FNumResults> kNumResults{"FNumResults"};

/// The stated number; 0 without one.
int NumResultsOf(const Op& op, const Attrs& attrs);
/// The stated rule; kNever for operators that state none: that is always right.
FiniteRule FiniteRuleOf(const Op& op);
/// The stated rule; kNever without one.
ScaleRule ScaleRuleOf(const Op& op);
/// The stated rule; kComputes without one.
ValueRule ValueRuleOf(const Op& op);
/// The stated rule of ToMixedPrecision (kMixedPrecision), which users may set; else kFollow for operators that take
/// elements one by one or move them; nothing for others.
std::optional<relay::MixedPrecisionKind> MixedPrecisionRuleOf(const Op& op);
/// The stated rule (relay::kLayoutRule; null: none); else that of its pattern: element-wise operators of one operand,
/// and those without attributes that broadcast several, run in the layout that their operands have. Null: runs in the
/// layout that it is written in.
relay::FLayoutRule LayoutRuleOf(const Op& op);

}  // namespace treadle::ops
