// SPDX-License-Identifier: Apache-2.0
// Nodes whose shapes aren't known when compiling: the counterparts of rules for those that are.
#pragma once

#include <vector>

#include "frontend/onnx/rules.h"

namespace treadle::onnx {

/// Dimension `axis` as an int64 scalar.
relay::Expr DimOf(NodeImport& n, const relay::Expr& x, int axis);

relay::Expr ImportDynamicReshape(NodeImport& n);
relay::Expr ImportDynamicFlatten(NodeImport& n, int axis);
/// Whether the bounds aren't all known, or can't be clamped when compiling.
bool SliceIsDynamic(NodeImport& n);
relay::Expr ImportDynamicSlice(NodeImport& n);
relay::Expr ImportDynamicExpand(NodeImport& n);
relay::Expr ImportDynamicPad(NodeImport& n);
std::vector<relay::Expr> ImportDynamicSplit(NodeImport& n, int axis);
relay::Expr ImportDynamicRange(NodeImport& n);
relay::Expr ImportDynamicEyeLike(NodeImport& n);
relay::Expr ImportDynamicOneHot(NodeImport& n);
bool TopKIsDynamic(NodeImport& n, int axis);
std::vector<relay::Expr> ImportDynamicTopK(NodeImport& n, int axis);
relay::Expr ImportDynamicCompress(NodeImport& n);
relay::Expr ImportNonZero(NodeImport& n);
relay::Expr ImportNonMaxSuppression(NodeImport& n);
/// Resampling of height and width; of any dimension where it repeats elements a whole number of times.
relay::Expr ImportDynamicResize(NodeImport& n);

}  // namespace treadle::onnx
