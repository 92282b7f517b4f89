// SPDX-License-Identifier: Apache-2.0
// Convolutions whose window is one pixel: matrix products along the channels, which commute with what is linear in
// space.
#pragma once

#include "treadle/ir/layout.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

/// Whether `call` is a 2-D convolution of floats with a static weight, a window of one pixel, strides of 1 and no
/// padding, whose data and result are in `layout`.
bool IsPointwise(const CallNode* call, const Layout& layout);

struct PointwiseChannels {
  int64_t in = 0;  ///< of all groups
  int64_t out = 0;
};
/// Of a call for which IsPointwise holds.
PointwiseChannels ChannelsOfPointwise(const CallNode* call);

}  // namespace treadle::relay
