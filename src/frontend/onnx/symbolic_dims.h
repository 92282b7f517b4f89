// SPDX-License-Identifier: Apache-2.0
// Sizes that a model computes from dimensions of its inputs, as expressions of their symbols: what types would leave
// unknown ("?"), so that layouts, fusion and kernels see which dimensions are the same.
#pragma once

#include <optional>
#include <vector>

#include "frontend/onnx/node_import.h"

namespace treadle::onnx {

/// Elements that a list of sizes is known to have, simplified; -1 where nothing is known, or it may be negative.
Array<PrimExpr> SizeHints(const std::optional<std::vector<PrimExpr>>& elements, int64_t length);

/// `x` with a type that has these dimensions where its own doesn't know them; -1 or "?": not known here either. They
/// have to be what the run gives.
relay::Expr WithDims(NodeImport& n, const relay::Expr& x, const Array<PrimExpr>& dims);

/// How many elements a slice with step 1 takes of a dimension; "?" where it can't be said. Elements may be null.
PrimExpr SliceSize(const PrimExpr& size, const PrimExpr& begin, const PrimExpr& end);

}  // namespace treadle::onnx
