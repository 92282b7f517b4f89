// SPDX-License-Identifier: Apache-2.0
// What the operators of a model ask of the sizes of its inputs, before passes write them by others that ask for less.
#pragma once

#include "treadle/ir/module.h"

namespace treadle::driver {

/// Attribute of main: Array<ObjectRef>{dimensions, rules}. A dimension is Array<ObjectRef>{tir::Var, name of the input
/// (String), its number (IntImm)}, a rule Array<PrimExpr>{found, expected, message (tir::StringImm)} over these
/// variables.
inline constexpr const char* kSizeRules = "size_rules";

/// States in kSizeRules what type rules of main's data flow ask of the dimensions of inputs that only a run knows,
/// where it follows from those dimensions alone. Branches, loops and functions are left out: they may not run.
IRModule StateSizeRules(const IRModule& module);

}  // namespace treadle::driver
