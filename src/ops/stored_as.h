// SPDX-License-Identifier: Apache-2.0
// Elements as the result's type has them.
#pragma once

#include "treadle/ir/prim_ops.h"

namespace treadle::ops {

/// `value` as an element of a tensor of `dtype`. Arithmetic on bool is done in integers: what isn't zero is true.
inline PrimExpr StoredAs(DataType dtype, const PrimExpr& value) {
  if (value.dtype() == dtype) return value;
  if (dtype.is_bool()) return tir::not_equal(value, tir::make_zero(value.dtype()));
  return tir::cast(dtype, value);
}

}  // namespace treadle::ops
