// SPDX-License-Identifier: Apache-2.0
// Type relations that many operators share, and helpers to write others.
#pragma once

#include <optional>
#include <vector>

#include "treadle/ir/type.h"

namespace treadle::relay {

/// [lhs, rhs, result]: shapes broadcast as in NumPy, aligned at the last dimension; dtypes must be equal.
/// An unknown dimension (Any) against s gives s; 1 against s gives s.
bool BroadcastRel(const Array<Type>& types, int num_inputs, const Attrs& attrs, TypeReporter& reporter);
/// As BroadcastRel with a bool result.
bool BroadcastCompRel(const Array<Type>& types, int num_inputs, const Attrs& attrs, TypeReporter& reporter);
/// [data, ..., result]: the result has the type of data (which may be any type), so have other inputs.
bool IdentityRel(const Array<Type>& types, int num_inputs, const Attrs& attrs, TypeReporter& reporter);
/// [data, result]: bool tensor of the shape of data.
bool IdentityCompRel(const Array<Type>& types, int num_inputs, const Attrs& attrs, TypeReporter& reporter);
/// [data, result]: int tensor of one dimension, the rank of data. The dtype is that of the attribute "dtype"
/// (int32 without one).
bool ShapeOfRel(const Array<Type>& types, int num_inputs, const Attrs& attrs, TypeReporter& reporter);

/// The type as a tensor type; null where it is a hole still (ask again later). Another kind is reported, and also
/// gives null: check `reporter` isn't needed, the relation may return false either way.
const TensorTypeNode* AsTensor(const Type& type, TypeReporter& reporter, const char* what);

/// Broadcast of two shapes, or nothing after reporting an incompatible dimension.
std::optional<Array<PrimExpr>> BroadcastShapes(const TensorTypeNode* lhs, const TensorTypeNode* rhs,
                                               TypeReporter& reporter);

/// Arithmetic on dimensions: folds constants; an operand that is Any gives a fresh Any.
PrimExpr DimAdd(const PrimExpr& a, const PrimExpr& b);
PrimExpr DimSub(const PrimExpr& a, const PrimExpr& b);
PrimExpr DimMul(const PrimExpr& a, const PrimExpr& b);
/// Rounds down; `b` positive.
PrimExpr DimFloorDiv(const PrimExpr& a, const PrimExpr& b);
/// Whether two dimensions are equal for all values of their variables, as far as sums and products of variables
/// with constants tell. Two Any dimensions are only equal when they are the same one.
bool DimProvablyEqual(const PrimExpr& a, const PrimExpr& b);
/// "3", "n", "(n + 1)", "?".
std::string DimString(const PrimExpr& dim);
/// "(2, n, ?)"; "(3,)".
std::string ShapeString(const Array<PrimExpr>& shape);

}  // namespace treadle::relay
