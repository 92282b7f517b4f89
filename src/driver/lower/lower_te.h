// SPDX-License-Identifier: Apache-2.0
// From a fused function of the graph IR to tensor expressions.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/target.h"
#include "treadle/relay/expr.h"
#include "treadle/te/tensor.h"

namespace treadle::driver {

/// A fused function as tensor expressions.
struct TensorFunction {
  Array<te::Tensor> inputs;   ///< placeholders, one per tensor parameter (tuples flattened)
  Array<te::Tensor> outputs;  ///< one per tensor of the result (tuples flattened); none is an input
  std::string name;           ///< "fused_nn_conv2d_add_nn_relu", at most 100 characters
};

/// Applies each operator's tensor compute. `func` is typed and consists of operator calls, tuples, projections,
/// scalar constants and its parameters; anything else is an InternalError that shows the function. An operator that
/// has no tensor compute is an UnsupportedOpError that names the node it comes from.
/// `target` (may be null) takes part in choosing among several implementations of an operator.
TensorFunction LowerToTensors(const relay::Function& func, const Target& target = Target(ObjectPtr<Object>()));

/// The results of a typed function of operators, given tensors for its parameters.
Array<te::Tensor> ComputeOnTensors(const relay::Function& func, const Array<te::Tensor>& inputs, const Target& target);

/// Per operator call of `func` its implementations, with their levels, which one is chosen, and why, as text.
std::string ExplainImplementations(const relay::Function& func, const Target& target);

/// "fused_" and the operators' names in visiting order; long names are cut and end in a hash of the whole name.
std::string FusedFunctionName(const relay::Function& func);

}  // namespace treadle::driver
