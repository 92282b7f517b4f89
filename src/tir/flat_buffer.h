// SPDX-License-Identifier: Apache-2.0
// One-dimensional forms of buffers.
#pragma once

#include "treadle/tir/stmt.h"

namespace treadle::tir {

/// The buffer's memory as one dimension, with the same data pointer: what FlattenBuffer puts in its place. The same
/// object where it is compact and one-dimensional already.
Buffer FlatBuffer(const Buffer& buffer);
/// Elements that the buffer spans: the last index plus one. int32 where it is a constant that fits, else int64.
PrimExpr BufferSpan(const Buffer& buffer);

}  // namespace treadle::tir
