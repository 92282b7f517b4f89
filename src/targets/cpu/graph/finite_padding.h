// SPDX-License-Identifier: Apache-2.0
// Channels that pad blocks of a convolution's result are sums of products with zeros: NaN where the data are infinite.
// Most readers leave them alone, as they take channels apart or know where each lies. A sum over all channels of a
// block would make NaN of every channel of its result, as 0 times NaN is NaN. What such a sum reads, directly or
// through operators that take channels apart, is set to 0 where it is produced.
#pragma once

#include "targets/cpu/graph/assign_layouts.h"

namespace treadle::relay {

/// `body`, as it was planned, with zeros in those channels that pad blocks and that a reader mixes into others.
Expr WithFinitePadding(const Expr& body, const LayoutTrace& trace);

}  // namespace treadle::relay
