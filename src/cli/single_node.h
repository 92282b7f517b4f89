// SPDX-License-Identifier: Apache-2.0
// One node of a model as a model of its own.
#pragma once

#include <string>

#include "cli/compare.h"

namespace treadle::cli {

/// Files of a model that holds one node, and of what ONNX Runtime gives it.
struct SingleNode {
  std::string model;     ///< .onnx
  std::string inputs;    ///< .npz: values of its inputs as the whole model computes them
  std::string expected;  ///< .npz: its result
  std::string text;      ///< "Softmax 'attention/softmax'"
};

/// Writes the node of `model` that computes `value`, given the model's inputs, to files in `folder`. Weights become
/// part of it. Throws RuntimeError where ONNX Runtime can't run the model.
SingleNode ExtractNode(const std::string& model, const NamedTensors& inputs, const std::string& value,
                       const std::string& folder);

}  // namespace treadle::cli
