// SPDX-License-Identifier: Apache-2.0
// Gradients of operators: the rule by which those of a call's arguments follow from that of its result. It stands where
// the operator is registered.
#pragma once

#include <functional>
#include <vector>

#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"

namespace treadle::ops {

/// A call of the original function, whose nodes are all typed.
struct GradientSite {
  const relay::CallNode* call;
  relay::Expr grad;                ///< of the result, a tensor
  std::vector<relay::Expr> grads;  ///< of the fields of a result that is a tuple; null where none flows
  relay::Expr result() const { return GetRef<relay::Expr>(call); }
  relay::Expr arg(size_t i) const { return call->args[i]; }
  const TensorTypeNode* type(size_t i) const { return call->args[i]->type_as<TensorTypeNode>(); }
  const TensorTypeNode* result_type() const { return call->type_as<TensorTypeNode>(); }
};

/// The gradient of each argument (a Tuple for a tuple). Null entries: none flows there.
using FGradient = std::function<std::vector<relay::Expr>(const GradientSite&)>;
/// Results that are integers need none: no gradient flows through them.
inline constexpr OpAttrKey<FGradient> kGradient{"FPrimalGradient"};

}  // namespace treadle::ops
