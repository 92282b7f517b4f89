// SPDX-License-Identifier: Apache-2.0
// Rules of operators that run in the layout of their operands; operators name theirs where they are registered.
#pragma once

#include <optional>

#include "treadle/relay/layout.h"

namespace treadle::ops {

#define TREADLE_LAYOUT_RULE(Name) \
  std::optional<relay::LaidOutCall> Name(const relay::CallNode* call, relay::LayoutArgs& args)

/// One tensor in, one of the same shape out, element by element.
TREADLE_LAYOUT_RULE(ElementwiseLayoutRule);
/// NumPy broadcasting of two tensors, or three.
TREADLE_LAYOUT_RULE(BroadcastLayoutRule);
TREADLE_LAYOUT_RULE(BiasAddLayoutRule);
/// Two-dimensional pooling: max, average, global.
TREADLE_LAYOUT_RULE(PoolLayoutRule);
TREADLE_LAYOUT_RULE(ConcatenateLayoutRule);
TREADLE_LAYOUT_RULE(LRNLayoutRule);
TREADLE_LAYOUT_RULE(StridedSliceLayoutRule);
TREADLE_LAYOUT_RULE(PadLayoutRule);
/// image.resize2d, nn.upsampling
TREADLE_LAYOUT_RULE(ResizeLayoutRule);
TREADLE_LAYOUT_RULE(ReduceLayoutRule);

#undef TREADLE_LAYOUT_RULE

}  // namespace treadle::ops
