// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "frontend/onnx/compose.h"
#include "frontend/onnx/rules.h"

namespace treadle::onnx {

/// The integers, if they keep the rule when the model runs; else it stops with an error. See CheckValuesAttrs.
relay::Expr CheckedValues(NodeImport& n, const relay::Expr& values, const char* rule, const relay::Expr& limits,
                          const char* what);
/// Throws ModelFormatError where dimension `i` of `a` and `j` of `b`, which have to be the same, are known and differ.
void CheckSameSize(const Term& a, int i, const Term& b, int j, const char* what);
/// `x` of whose dimensions some (the first of each pair) are some of another's: as CheckSameSize, when the model runs
/// where only a run knows them.
Term OfSameSize(const Term& x, const std::vector<std::pair<int, int>>& axes, const Term& other, const char* what);
/// The integers, none of which may be less: refused at once where they are known.
Term AtLeast(const Term& values, int64_t least, const char* what);
/// Rows of a table by index, from 0 on, as operators that don't count from the end have them.
relay::Expr PickedRows(NodeImport& n, const relay::Expr& table, const relay::Expr& indices, const char* what);
/// The integers (int64, a scalar or a vector), which have to be those expected when the model runs.
Term EqualTo(const Term& values, const Term& expected, const char* what);
/// `x` whose dimension `i` has to be 1 or dimension `j` of `other`: as CheckSameSize, when the model runs where only a
/// run knows them.
Term OneOrSize(const Term& x, int i, const Term& other, int j, const char* what);
/// `x`, which is broadcast to `other` and may not make it larger: dimensions counted from the last are 1 or that of
/// `other`, and there are no more of them. As CheckSameSize, when the model runs where only a run knows them.
Term WithinShape(Term x, const Term& other, const char* what);
/// The size (int64 scalar) over a number, which has to divide it when the model runs.
Term DividedBy(const Term& size, int64_t number, const char* what);
/// `x` [batch, length, heads * size], size known or not, as [batch, length, heads, size].
Term WithHeads(const Term& x, int64_t heads, const char* attribute);
/// `x` with a type of these sizes (-1: any). A ModelFormatError names `what` where a known one differs, the run's error
/// where another does.
Term WithSizes(const Term& x, const std::vector<int64_t>& sizes, const char* what);

}  // namespace treadle::onnx
