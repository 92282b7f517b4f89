// SPDX-License-Identifier: Apache-2.0
// Values in another layout.
#pragma once

#include <string>

#include "treadle/relay/layout.h"

namespace treadle::ops {

/// Changes the layout of a constant or an activation (operator layout_transform), as Layout spells them.
relay::Expr LayoutTransform(const relay::Expr& data, const std::string& from, const std::string& to);
/// Changes the layout of a tensor of `type` (that of its plain form): channels that pad blocks come or go.
relay::Expr ChangeLayout(const relay::Expr& data, const TensorTypeNode* type, const relay::ChannelLayout& from,
                         const relay::ChannelLayout& to);

}  // namespace treadle::ops
