// SPDX-License-Identifier: Apache-2.0
// Types and dimensions as text.
#pragma once

#include <functional>
#include <string>

#include "treadle/ir/module.h"
#include "treadle/ir/type.h"

namespace treadle::relay {

/// How variables print; both return the name.
struct TypeNames {
  std::function<std::string(const TypeVarNode*)> type_var;
  std::function<std::string(const Object*)> dim_var;  ///< of a tir::Var that isn't Any
};

/// "Tensor[(1, n, ?), float32]", "(A, fn (B) -> C)", ... Holes print as "_".
std::string TypeText(const Type& type, const TypeNames& names);
/// With the variables' name hints.
std::string TypeText(const Type& type);
/// "3", "n", "(n + 1)", "?".
std::string DimText(const PrimExpr& dim, const TypeNames& names);
std::string DimText(const PrimExpr& dim);

}  // namespace treadle::relay
