// SPDX-License-Identifier: Apache-2.0
// Helpers for writing code generators: what predicates ask of a call, and a region as a list of nodes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "treadle/relay/expr.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::external {

/// Type of a tensor with constant dimensions, as code generators work with them.
struct Tensor {
  std::vector<int64_t> shape;
  DataType dtype;
  int64_t size() const {
    int64_t product = 1;
    for (int64_t dim : shape) product *= dim;
    return product;
  }
};

/// The tensor type of an expression; throws ShapeError for symbolic dimensions, DTypeError for what isn't a tensor.
Tensor TensorOf(const relay::Expr& expr);
/// False with a reason unless operands and result are tensors of constant dimensions, without zeros, and of one of
/// `dtypes` (all the same one).
bool CheckTensors(const relay::CallNode* call, const std::vector<DataType>& dtypes, std::string* reason);

/// One value of a region: an input, a constant, a call of an operator, or a field of a tuple-valued call.
struct RegionNode {
  enum Kind { kInput, kConstant, kCall };
  Kind kind = kInput;
  const relay::CallNode* call = nullptr;  ///< of kCall
  runtime::NDArray data;                  ///< of kConstant
  int index = 0;                          ///< of kInput: among the parameters; of kConstant: in DefaultConstants
  std::vector<int> inputs;                ///< of kCall: the operands' nodes; a tuple's fields in its place
  Tensor type;
  int uses = 0;                   ///< by calls and results
  const std::string& op() const;  ///< the operator's name
};

/// Whether the operands of nn.dense, nn.matmul or nn.batch_matmul are transposed, the first and the second.
std::pair<bool, bool> TransposedOperands(const RegionNode& node);

/// A region in topological order.
struct Region {
  std::string symbol;
  std::vector<RegionNode> nodes;
  std::vector<int> params;   ///< nodes of the parameters
  std::vector<int> outputs;  ///< nodes of the results, tuples flattened

  /// Reads a region's function. Composite functions are dissolved into their operators. Throws Error that names what a
  /// region can't hold: control flow, closures, operators that return tuples.
  explicit Region(const relay::Function& function);

 private:
  relay::Function function_;  ///< holds the calls
  size_t constant_count_ = 0;
};

/// `function` with the composite functions that it calls in their place, types inferred.
relay::Function DissolveComposites(const relay::Function& function);

}  // namespace treadle::external
