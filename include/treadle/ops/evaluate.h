// SPDX-License-Identifier: Apache-2.0
// Values of operators when compiling, from their tensor computation (compute.h): results on constants, and integers
// that shapes are computed with, where dimensions are symbolic. For importers, passes and the VM's code generator.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "treadle/ir/attrs.h"
#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"

namespace treadle::ops {

/// Most elements that an operand or result of EvaluateCall may have, moves aside.
inline constexpr int64_t kMaxEvaluatedElements = 4096;

/// The result of `op` on `args`: Constants, or Tuples of them; `type` is the inferred type of the call. Nothing where
/// an operand isn't known, a tensor is large, or the result isn't the same on every machine (exp, sin, ...): then it is
/// left to a compiled program. What is given is what that would compute.
std::optional<NDArray> EvaluateCall(const Op& op, const Array<relay::Expr>& args, const Attrs& attrs, const Type& type);

/// As EvaluateCall, of operands of any size, for what plain loops do: operators that only move or repeat elements in
/// regular steps (reshape, transpose, slice, concatenate, layout_transform, pad, full), + - * /, sums, means and
/// matrix products of float32. The fields of a tuple count as operands.
std::optional<NDArray> EvaluateInBulk(const Op& op, const std::vector<NDArray>& args, const Attrs& attrs,
                                      const TensorTypeNode* type);

/// Whether EvaluateInBulk reduces elements of that type: int32 exactly, float32 in float64.
bool IsReducedInBulk(const std::string& op, DataType dtype);

/// Whether EvaluateInBulk computes matrix products, which the interpreter takes long for, of factors of one type in the
/// other.
bool IsProductInBulk(const std::string& op, DataType factor, DataType dtype);

/// What is known of small integer tensors, element by element. Keeps what it has found for each expression: use one
/// for many questions about one program. Expressions must be typed.
class KnownValues {
 public:
  KnownValues();
  ~KnownValues();
  KnownValues(const KnownValues&) = delete;
  KnownValues& operator=(const KnownValues&) = delete;

  /// Elements in row-major order of a tensor of integers or bools (as 0 and 1), of static shape and at most 64
  /// elements: int64 expressions of symbolic dimensions, null where an element isn't known. Nothing for other
  /// expressions.
  std::optional<std::vector<PrimExpr>> Elements(const relay::Expr& expr);
  /// The elements, if all are known constants.
  std::optional<std::vector<int64_t>> Integers(const relay::Expr& expr);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace treadle::ops
