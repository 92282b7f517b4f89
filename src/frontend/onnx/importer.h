// SPDX-License-Identifier: Apache-2.0
// ONNX models to graph IR.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx/model.h"
#include "treadle/ir/module.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::onnx {

/// In ImportOptions::shapes: a dimension that isn't known, whatever the model declares.
inline constexpr int64_t kUnknownDim = -2;

struct ImportOptions {
  /// Shapes of inputs by name; they replace the declared ones. -1 leaves a dimension as declared, kUnknownDim makes it
  /// unknown.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Values of symbolic dimensions by name, such as {"batch", 1}.
  std::map<std::string, int64_t> dims;
  /// Symbolic dimensions that have to exist, and to stay open.
  std::vector<std::string> open_dims;
  /// Inputs that are fixed to a value when compiling: axes, sizes and the like that a model takes as inputs. They
  /// aren't parameters of the result. Type and shape have to be those that the model declares.
  std::map<std::string, NDArray> constants;
  /// Initializers that are inputs of the graph as well, which makes them defaults (IR version 4; in older ones every
  /// initializer is): those listed are inputs of the result, which callers give.
  std::vector<std::string> overridable;
  /// Weights become constants of the function rather than parameters.
  bool freeze_params = false;
};

struct ImportResult {
  IRModule mod;                           ///< "main": inputs in the order of the graph, then the weights it uses
  std::map<std::string, NDArray> params;  ///< the weights, by the name of their parameter
  std::vector<std::string> input_names;   ///< parameters of "main" that aren't weights
  std::vector<std::string> output_names;  ///< of the result's fields (one output: of the result)
  /// Of inputs and outputs that aren't tensors of numbers: their type, see runtime::TensorInfo::value_type.
  std::map<std::string, std::string> value_types;
};

/// Imports a model. "main" returns the graph's output, or a tuple of them.
///
/// Dimensions that stay symbolic are variables of the input types, one per name. Values that shapes are made of are
/// computed during the import.
///
/// Throws UnsupportedOpError that lists every node that can't be imported; Error for shapes and dimensions of unknown
/// names; ShapeError and DTypeError for nodes whose operands don't fit; ModelFormatError for nodes that break ONNX's
/// rules. All name the node.
ImportResult FromOnnx(const Model& model, const ImportOptions& options = {});

/// An ONNX operator that can be imported, and the versions of it (opsets at which its definition changed).
struct SupportedOp {
  std::string domain;
  std::string name;
  std::vector<int> versions;
  std::vector<int> missing_versions;  ///< of the standard, not imported
};

/// All operators that can be imported, sorted by domain and name.
std::vector<SupportedOp> SupportedOps();

}  // namespace treadle::onnx
