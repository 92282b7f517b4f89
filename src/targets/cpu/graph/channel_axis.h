// SPDX-License-Identifier: Apache-2.0
// Operators that passes move from tensors of one rank to those of another.
#pragma once

#include <optional>

#include "passes/pass_util.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/qnn.h"

namespace treadle::relay {

/// Whether an operator on N, C, .. means the same where dimensions behind the channels are added or removed: it names
/// no dimension but that of channels.
inline bool NamesChannelsOnly(const CallNode* call) {
  std::optional<int> axis;
  if (const auto* bias = call->attrs.as<ops::BiasAddAttrs>()) axis = bias->axis;
  if (const auto* prelu = call->attrs.as<ops::PReluAttrs>()) axis = prelu->axis;
  if (const auto* quantize = call->attrs.as<ops::QuantizeAttrs>()) axis = quantize->axis;
  if (const auto* dequantize = call->attrs.as<ops::DequantizeAttrs>()) axis = dequantize->axis;
  if (const auto* requantize = call->attrs.as<ops::RequantizeAttrs>()) axis = requantize->axis;
  if (!axis || *axis == 1) return true;
  // Operands of one element have no dimension.
  for (size_t i = 1; i < call->args.size(); ++i) {
    const auto* type = TensorTypeOf(call->args[i]);
    if (type == nullptr || !type->shape.empty()) return false;
  }
  return true;
}

}  // namespace treadle::relay
