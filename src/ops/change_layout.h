// SPDX-License-Identifier: Apache-2.0
// Values in another layout of activations (treadle/relay/layout.h).
#pragma once

#include <string>

#include "treadle/relay/expr.h"

namespace treadle::ops {

/// Changes the layout of a constant or an activation (operator layout_transform).
relay::Expr LayoutTransform(const relay::Expr& data, const std::string& from, const std::string& to);
/// Changes the layout of a tensor of `type` (that of its plain form): channels that only fill a block come or go.
relay::Expr ChangeLayout(const relay::Expr& data, const TensorTypeNode* type, const std::string& from,
                         const std::string& to);

}  // namespace treadle::ops
