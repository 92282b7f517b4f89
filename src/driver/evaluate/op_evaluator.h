// SPDX-License-Identifier: Apache-2.0
// Single operators on tensors at hand: each is compiled for the StackVM once per attributes and argument types.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"

namespace treadle::driver {

/// The arguments of an operator: tensors and tuples of tensors.
struct Operands {
  std::vector<runtime::NDArray> tensors;  ///< of all arguments, tuples flattened
  std::vector<int> fields;                ///< per argument the number of tensors of a tuple; -1 for a tensor
  /// The types of the arguments as the tensors have them.
  Array<Type> Types() const;
};

/// Results of an operator.
struct OpResults {
  std::vector<runtime::NDArray> tensors;
  bool is_tuple = false;
};

/// Computes `op` on the CPU. Result shapes come from the tensors, so types may be symbolic in the program. The
/// programs of earlier calls are kept and shared by all threads.
///
/// Throws UnsupportedOpError for operators without a tensor compute; ShapeError, DTypeError or TypeInferError for
/// arguments that the operator doesn't take; RuntimeError for indices out of bounds.
OpResults EvaluateOp(const Op& op, const Attrs& attrs, const Operands& operands);

/// Whether EvaluateOp has a rule for the operator (arguments and attributes aside).
bool HasComputeRule(const Op& op);

}  // namespace treadle::driver
