// SPDX-License-Identifier: Apache-2.0
#include "ops/layout.h"

#include "ops/infer.h"

namespace treadle::ops {

namespace {

void CheckNames(const Layout& layout, const std::string& names, const char* what) {
  bool match = layout.primal_axes().size() == names.size();
  for (char name : names) match = match && layout.IndexOf(name) >= 0;
  if (!match) throw ShapeError(StrCat(what, ": layout \"", layout.str(), "\" isn't an order of \"", names, "\""));
}

}  // namespace

Array<PrimExpr> LogicalShape(const Layout& layout, const Array<PrimExpr>& shape, const std::string& names,
                             const char* what) {
  CheckNames(layout, names, what);
  if (shape.size() != layout.ndim()) {
    throw ShapeError(
        StrCat(what, " of layout ", layout.str(), " must have ", layout.ndim(), " dimensions, not ", ShapeText(shape)));
  }
  for (size_t i = 0; i < layout.ndim(); ++i) {
    if (layout[i].is_inner() && AsConstInt(shape[i]) != nullptr && DimValue(shape[i]) != layout[i].factor) {
      throw ShapeError(StrCat(what, " of layout ", layout.str(), ": dimension ", i, " must be ", layout[i].factor,
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
                              " isn't a multiple of the block of ", "layout ", layout.str()));
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
