// SPDX-License-Identifier: Apache-2.0
// Convolutions over one dimension as those over two, of which the first has one element.
#pragma once

#include "treadle/ops/attrs/conv.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

/// (a, b, W) -> (a, b, 1, W): data in NCW as NCHW, a weight in OIW as OIHW. A constant stays one, as passes choose by
/// it.
Expr WithOneRow(const Expr& tensor);

/// Attributes of the nn.conv2d or qnn.conv2d that does in NCHW and OIHW what a convolution in NCW and OIW does.
Attrs WideConvAttrs(const ops::Conv1DAttrs& narrow);

}  // namespace treadle::relay
