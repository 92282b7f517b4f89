// SPDX-License-Identifier: Apache-2.0
// Layouts: "NCHW", "OIHW", "NCHW16c". A capital letter is a dimension; a number and its small letter is an inner
// block of that dimension.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/expr.h"

namespace treadle::ops {

/// One dimension of a tensor in a layout.
struct LayoutAxis {
  char name = 0;       ///< 'C' of a whole or outer dimension, 'c' of an inner block
  int64_t factor = 0;  ///< size of an inner block; 0 for capitals
  bool is_inner() const { return factor != 0; }
  char primal() const { return is_inner() ? static_cast<char>(name - 'a' + 'A') : name; }
};

class Layout {
 public:
  /// Throws ShapeError that quotes the text unless it is a layout.
  explicit Layout(const std::string& text);
  size_t ndim() const { return axes_.size(); }
  const LayoutAxis& operator[](size_t i) const { return axes_[i]; }
  const std::string& text() const { return text_; }
  /// Position of the dimension of that name ('C', 'c'), or -1.
  int IndexOf(char name) const;
  /// Product of the inner blocks of a dimension; 1 where there is none.
  int64_t BlockOf(char primal) const;
  /// Whether there are no inner blocks.
  bool IsPlain() const;

 private:
  std::string text_;
  std::vector<LayoutAxis> axes_;
};

/// Sizes of the dimensions `names` (capitals, such as "NCHW") of a tensor of shape `shape` in `layout`: blocks are
/// multiplied in. ShapeError where the rank or a dimension doesn't fit; `what` names the tensor.
Array<PrimExpr> LogicalShape(const Layout& layout, const Array<PrimExpr>& shape, const std::string& names,
                             const char* what);
/// The inverse: shape in `layout` of a tensor with these sizes of `names`. ShapeError where a block doesn't divide.
Array<PrimExpr> PhysicalShape(const Layout& layout, const Array<PrimExpr>& sizes, const std::string& names);
/// Index in `layout` of the element at `indices` of the dimensions `names`.
Array<PrimExpr> PhysicalIndex(const Layout& layout, const Array<PrimExpr>& indices, const std::string& names);
/// The inverse.
Array<PrimExpr> LogicalIndex(const Layout& layout, const Array<PrimExpr>& indices, const std::string& names);

}  // namespace treadle::ops
