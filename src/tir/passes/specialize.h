// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/tir/function.h"

namespace treadle::tir {

/// `func` for given parameters: a scalar (PrimExpr) takes the value, and is no parameter any more; a tensor has the
/// shape, strides and offset of the Buffer, which say what its symbolic dimensions are. Error where a parameter isn't
/// there, is of the other kind, or a dimension can't be what is given.
PrimFunc Specialize(PrimFunc func, const Map<Var, ObjectRef>& values);

}  // namespace treadle::tir
