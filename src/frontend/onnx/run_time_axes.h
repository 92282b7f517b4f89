// SPDX-License-Identifier: Apache-2.0
// Dynamic axes: the operand is transposed so that they come last.
#pragma once

#include <functional>

#include "frontend/onnx/compose.h"

namespace treadle::onnx {

/// An order of dimensions that is computed when the model runs.
struct AxisOrder {
  Term mask;      ///< bool (rank): which dimensions are meant
  Term order;     ///< int64 (rank): the other dimensions, then those
  Term position;  ///< int64 (rank): where each dimension went; the inverse of `order`
};

/// Of the axes in `axes`, an integer scalar or vector; one that is out of range is an error when the model runs, and
/// where they are to be `distinct`, one that is given twice.
AxisOrder AxesLast(const Term& axes, int rank, bool distinct = false);
/// A list that has so many entries, which is checked when it runs.
Term OfLength(const Term& list, int64_t length);
/// An input that lists sizes, axes and the like, int64, of a length that is known when compiling. `length`: what it has
/// to be where the operand doesn't tell it, which is checked when it runs; less than 0: nothing tells it, and
/// UnknownLength is thrown.
Term ListIn(NodeImport& n, size_t i, const char* name, int64_t length = -1);
/// The entries of such a list.
int64_t Length(const Term& list);
/// Of those that the mask says, a bool for each of them.
AxisOrder MaskedLast(const Term& mask);
/// Transposed by an int64 vector.
Term TransposeBy(const Term& x, const Term& order);
/// What `f` makes of `x` with the axis that `axis` tells as the last one, which is put back.
Term AlongAxis(const Term& x, const Term& axis, const std::function<Term(const Term&)>& f);

}  // namespace treadle::onnx
