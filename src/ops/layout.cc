// SPDX-License-Identifier: Apache-2.0
#include "ops/layout.h"

#include <cctype>

#include "ops/infer.h"
#include "treadle/base/checked_math.h"

namespace treadle::ops {

Layout::Layout(const std::string& text) : text_(text) {
  auto fail = [&](const std::string& why) { throw ShapeError(StrCat("layout \"", text, "\": ", why)); };
  int64_t factor = 0;
  for (char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      factor = factor * 10 + (c - '0');
      if (factor > (int64_t{1} << 20)) fail("block is too large");
      continue;
    }
    bool inner = c >= 'a' && c <= 'z';
    if (!inner && !(c >= 'A' && c <= 'Z')) fail(StrCat("unexpected character '", c, "'"));
    if (inner != (factor != 0)) fail(StrCat("a block has a positive number and a small letter, near '", c, "'"));
    if (IndexOf(c) >= 0) fail(StrCat("'", c, "' occurs twice"));
    axes_.push_back({c, factor});
    factor = 0;
  }
  if (factor != 0) fail("ends in a number");
  for (const LayoutAxis& axis : axes_) {
    if (axis.is_inner() && IndexOf(axis.primal()) < 0)
      fail(StrCat("block of a missing dimension '", axis.primal(), "'"));
  }
}

int Layout::IndexOf(char name) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int64_t Layout::BlockOf(char primal) const {
  int64_t block = 1;
  for (const LayoutAxis& axis : axes_) {
    if (axis.is_inner() && axis.primal() == primal) block *= axis.factor;
  }
  return block;
}

bool Layout::IsPlain() const {
  for (const LayoutAxis& axis : axes_) {
    if (axis.is_inner()) return false;
  }
  return true;
}

namespace {

void CheckNames(const Layout& layout, const std::string& names, const char* what) {
  size_t outer = 0;
  for (size_t i = 0; i < layout.ndim(); ++i) outer += layout[i].is_inner() ? 0 : 1;
  bool match = outer == names.size();
  for (char name : names) match = match && layout.IndexOf(name) >= 0;
  if (!match) throw ShapeError(StrCat(what, ": layout \"", layout.text(), "\" isn't an order of \"", names, "\""));
}

}  // namespace

Array<PrimExpr> LogicalShape(const Layout& layout, const Array<PrimExpr>& shape, const std::string& names,
                             const char* what) {
  CheckNames(layout, names, what);
  if (shape.size() != layout.ndim()) {
    throw ShapeError(StrCat(what, " of layout ", layout.text(), " must have ", layout.ndim(), " dimensions, not ",
                            ShapeText(shape)));
  }
  for (size_t i = 0; i < layout.ndim(); ++i) {
    if (layout[i].is_inner() && AsConstInt(shape[i]) != nullptr && DimValue(shape[i]) != layout[i].factor) {
      throw ShapeError(StrCat(what, " of layout ", layout.text(), ": dimension ", i, " must be ", layout[i].factor,
                              ", is ", DimValue(shape[i])));
    }
  }
  Array<PrimExpr> sizes;
  for (char name : names) {
    PrimExpr outer = shape[static_cast<size_t>(layout.IndexOf(name))];
    sizes.push_back(DimMul(outer, Dim(layout.BlockOf(name))));
  }
  return sizes;
}

Array<PrimExpr> PhysicalShape(const Layout& layout, const Array<PrimExpr>& sizes, const std::string& names) {
  CheckNames(layout, names, "tensor");
  Array<PrimExpr> shape;
  for (size_t i = 0; i < layout.ndim(); ++i) {
    const LayoutAxis& axis = layout[i];
    if (axis.is_inner()) {
      shape.push_back(Dim(axis.factor));
      continue;
    }
    PrimExpr size = sizes[names.find(axis.name)];
    int64_t block = layout.BlockOf(axis.name);
    if (AsConstInt(size) != nullptr && DimValue(size) % block != 0) {
      throw ShapeError(StrCat("dimension ", axis.name, " of size ", DimValue(size),
                              " isn't a multiple of the block of ", "layout ", layout.text()));
    }
    shape.push_back(DimFloorDiv(size, Dim(block)));
  }
  return shape;
}

Array<PrimExpr> PhysicalIndex(const Layout& layout, const Array<PrimExpr>& indices, const std::string& names) {
  Array<PrimExpr> result;
  for (size_t i = 0; i < layout.ndim(); ++i) {
    const LayoutAxis& axis = layout[i];
    PrimExpr index = indices[names.find(axis.primal())];
    int64_t block = layout.BlockOf(axis.primal());
    if (block == 1) {
      result.push_back(index);
    } else if (!axis.is_inner()) {
      result.push_back(tir::floordiv(index, tir::make_const(index.dtype(), block)));
    } else {
      result.push_back(tir::floormod(index, tir::make_const(index.dtype(), axis.factor)));
    }
  }
  return result;
}

Array<PrimExpr> LogicalIndex(const Layout& layout, const Array<PrimExpr>& indices, const std::string& names) {
  Array<PrimExpr> result;
  for (char name : names) {
    PrimExpr index = indices[static_cast<size_t>(layout.IndexOf(name))];
    int inner = layout.IndexOf(static_cast<char>(name - 'A' + 'a'));
    if (inner >= 0) {
      index = index * layout[static_cast<size_t>(inner)].factor + indices[static_cast<size_t>(inner)];
    }
    result.push_back(index);
  }
  return result;
}

}  // namespace treadle::ops
