// SPDX-License-Identifier: Apache-2.0
// Fused functions over symbolic dimensions: one kernel for all shapes.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/shape_function.h"
#include "treadle/relay/expr.h"

namespace treadle::driver {

/// Sizes, in the caller's terms, that an operator needs to be equal; not known to be.
struct SizeEquality {
  PrimExpr found, expected;
  std::string rule;  ///< for the message
  Span place = {};   ///< of the operator
};

/// A fused function whose parameters' dimensions are constants, variables n0, n1, .. or multiples of them where the
/// caller's are known to be, the same objects for all kernels, so that calls which differ only in their shapes share
/// one.
struct SymbolicKernel {
  relay::Function func;             ///< typed
  std::vector<TensorType> results;  ///< flattened
  Array<tir::Var> variables;        ///< n0, n1, .. that occur
  std::vector<PrimExpr> values;     ///< of the variables, in terms of the caller's dimensions
  std::vector<SizeEquality> equalities;
  bool has_multiples = false;  ///< dimensions that are multiples of variables
};

/// Gives element `index` of the call's argument tensor `operand` in terms of the caller.
using ArgumentElement = std::function<PrimExpr(size_t operand, int64_t index)>;

/// `func` consists of operator calls, tuples, projections and constants; `arg_types` are the caller's. Dimensions of
/// results follow from the operators' type rules; where values matter, from their shape functions.
/// Throws UnsupportedOpError for an operator whose result's shape can't be computed.
SymbolicKernel MakeSymbolicKernel(const relay::Function& func, const Array<Type>& arg_types,
                                  const ArgumentElement& element, arith::Analyzer* analyzer);

/// Tensor types of a (nested) tuple type.
void FlattenTensorTypes(const Type& type, std::vector<TensorType>* out);

/// Type of a call by the operator's rule; operands have no dimensions that are AnyDim. Dimensions that the rule can't
/// tell are AnyDim. What it takes to be equal, and isn't known to be, is added to `equalities`.
Type InferSymbolic(const Op& op, const Array<Type>& arg_types, const Attrs& attrs, const Span& span,
                   std::vector<SizeEquality>* equalities);

/// The same of a call whose operands have these types, its attributes those that don't depend on the caller.
Type InferCall(const relay::CallNode* call, const Array<Type>& arg_types, std::vector<SizeEquality>* equalities);

/// The dimensions that `dim` is the broadcast of: `dim` itself where it is none.
void CollectBroadcast(const PrimExpr& dim, std::vector<PrimExpr>* out);

PrimExpr SubstituteDims(const PrimExpr& expr, const Array<tir::Var>& variables, const std::vector<PrimExpr>& values);

/// Elements of the kernel's results (at most `max_elements` together, integers), in terms of its variables and of its
/// parameters' elements: `param(i, k)` is element k of parameter tensor i, null where it isn't known. Nothing where
/// that isn't possible.
std::optional<std::vector<std::vector<PrimExpr>>> SymbolicElements(
    const SymbolicKernel& kernel, const std::function<PrimExpr(size_t, int64_t)>& param, int64_t max_elements = 64);

}  // namespace treadle::driver
