// SPDX-License-Identifier: Apache-2.0
// Nodes whose shapes aren't known when compiling: the counterparts of rules for those that are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx/compose.h"
#include "frontend/onnx/rules.h"

namespace treadle::onnx {

/// Dimension `axis` as an int64 scalar.
relay::Expr DimOf(NodeImport& n, const relay::Expr& x, int axis);
/// The numbers from 0 on, so many as an int64 scalar says.
relay::Expr Iota(NodeImport& n, const relay::Expr& count);

relay::Expr ImportDynamicReshape(NodeImport& n);
relay::Expr ImportDynamicFlatten(NodeImport& n, int axis);
/// Whether the bounds aren't all known, or can't be clamped when compiling.
bool SliceIsDynamic(NodeImport& n);
relay::Expr ImportDynamicSlice(NodeImport& n);
relay::Expr ImportDynamicExpand(NodeImport& n);
/// Whether a dimension is known to become as large as it is. `size`: null where nothing is known of it.
bool KeepsSize(const Term& x, int64_t axis, const PrimExpr& size);
/// The size (int64, a scalar or one element) that a dimension is resampled to: 0 where that is empty when the model
/// runs.
Term SizeOfSampled(const Term& x, int axis, const Term& size);
std::vector<relay::Expr> ImportDynamicSplit(NodeImport& n, int axis);
relay::Expr ImportDynamicEyeLike(NodeImport& n);
relay::Expr ImportDynamicOneHot(NodeImport& n);
/// The two values of OneHot; a vector of unknown length is checked when it runs.
relay::Expr OneHotValues(NodeImport& n);
bool TopKIsDynamic(NodeImport& n, int axis);
std::vector<relay::Expr> ImportDynamicTopK(NodeImport& n, int axis);
relay::Expr ImportDynamicCompress(NodeImport& n);
relay::Expr ImportNonZero(NodeImport& n);
relay::Expr ImportNonMaxSuppression(NodeImport& n);
/// Resampling of height and width; of any dimension where it repeats elements a whole number of times.
relay::Expr ImportDynamicResize(NodeImport& n);

/// Resampling along one axis after the other: any factors, sizes and modes.
relay::Expr ImportResizeByAxis(NodeImport& n);

// Nodes with axes and sizes that are only known when the model runs.
relay::Expr ImportRunTimeSqueeze(NodeImport& n);
relay::Expr ImportRunTimeUnsqueeze(NodeImport& n);
relay::Expr ImportRunTimeCumulative(NodeImport& n, const char* op);
relay::Expr ImportRunTimeTrilu(NodeImport& n);
relay::Expr ImportRunTimeWindow(NodeImport& n, double a0, double a1, double a2);
relay::Expr ImportRunTimeCenterCropPad(NodeImport& n);

/// A reduction along axes that input 1 lists: what is reduced becomes the second dimension of a matrix.
class RunTimeReduction {
 public:
  RunTimeReduction(NodeImport& n, bool keepdims, bool noop);
  /// (kept, reduced)
  Term Flatten(const Term& x) const;
  /// The result for operand `x`, from one number for each row.
  Term Restore(const Term& y, const Term& x) const;

 private:
  bool keepdims_;
  int rank_ = 0, kept_ = 0;
  std::optional<Term> mask_, order_;
};

}  // namespace treadle::onnx
