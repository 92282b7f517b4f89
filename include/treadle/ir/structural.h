// SPDX-License-Identifier: Apache-2.0
// Structural equality and hashing over reflected fields. Alpha-equivalent terms are equal: variables bound inside
// (function parameters, let, loop variables, buffers) are compared by their place of binding. Iterative: depth of
// the terms doesn't matter.
#pragma once

#include <cstdint>
#include <string>

#include "treadle/runtime/object.h"

namespace treadle {

/// With `map_free_vars`, free variables of one side may stand for those of the other (consistently).
bool StructuralEqual(const ObjectRef& a, const ObjectRef& b, bool map_free_vars = false);
/// Null-terminated path to the first difference ("root.body.args[1].dtype: float32 vs int32"), "" when equal.
std::string StructuralDifference(const ObjectRef& a, const ObjectRef& b, bool map_free_vars = false);
/// Equal terms have equal hashes. The same in each process, so usable as a key on disk.
uint64_t StructuralHash(const ObjectRef& a, bool map_free_vars = false);

struct StructuralEqualFn {
  bool operator()(const ObjectRef& a, const ObjectRef& b) const { return StructuralEqual(a, b); }
};
struct StructuralHashFn {
  size_t operator()(const ObjectRef& a) const { return static_cast<size_t>(StructuralHash(a)); }
};

}  // namespace treadle
