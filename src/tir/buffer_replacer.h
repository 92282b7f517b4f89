// SPDX-License-Identifier: Apache-2.0
// Replaces buffers by others of the same rank, and their data pointers, within a statement.
#pragma once

#include "treadle/tir/stmt.h"

namespace treadle::tir {

/// `stmt` with each buffer that is a key of `buffers` replaced by the value, in loads, stores, regions, views,
/// allocations and attributes; data pointers alike. Declarations (alloc_buffers, Allocate) are replaced too.
Stmt ReplaceBuffers(const Stmt& stmt, const Map<Buffer, Buffer>& buffers);

}  // namespace treadle::tir
