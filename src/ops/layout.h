// SPDX-License-Identifier: Apache-2.0
// Shapes and indices of tensors in layouts (treadle/ir/layout.h). `names` are the dimensions in the order in which an
// operator thinks of them, capital letters such as "NCHW".
#pragma once

#include <string>

#include "treadle/ir/expr.h"
#include "treadle/ir/layout.h"

namespace treadle::ops {

/// Sizes of the dimensions `names` of a tensor of shape `shape` in `layout`: blocks are multiplied in. ShapeError where
/// the rank or a dimension doesn't fit; `what` names the tensor.
Array<PrimExpr> LogicalShape(const Layout& layout, const Array<PrimExpr>& shape, const std::string& names,
                             const char* what);
/// The inverse: shape in `layout` of a tensor with these sizes of `names`. ShapeError where a block doesn't divide.
Array<PrimExpr> PhysicalShape(const Layout& layout, const Array<PrimExpr>& sizes, const std::string& names);
/// Index in `layout` of the element at `indices` of the dimensions `names`.
Array<PrimExpr> PhysicalIndex(const Layout& layout, const Array<PrimExpr>& indices, const std::string& names);
/// The inverse.
Array<PrimExpr> LogicalIndex(const Layout& layout, const Array<PrimExpr>& indices, const std::string& names);

}  // namespace treadle::ops
