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
  /// Called around the parts of a type within which type parameters are bound.
  std::function<void(const Array<TypeVar>&)> open = nullptr, close = nullptr;
};

/// "Tensor[(1, n, ?), float32]", "(A, fn (B) -> C)", "fn [x, y](x) -> y where nn.relu(x, y)", ... Holes print as "_".
std::string TypeText(const Type& type, const TypeNames& names);
/// With the variables' name hints.
std::string TypeText(const Type& type);
/// "3", "n", "(n + 1)", "?".
std::string DimText(const PrimExpr& dim, const TypeNames& names);
std::string DimText(const PrimExpr& dim);

}  // namespace treadle::relay
