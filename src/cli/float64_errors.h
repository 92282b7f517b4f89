// SPDX-License-Identifier: Apache-2.0
// Errors of engines that compute in float32 against the same model computed in float64.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/compiler_api.h"
#include "cli/tensor_file.h"

namespace treadle::cli {

/// Largest differences of one output from float64, over the output's range.
struct Float64Error {
  std::string output;
  double treadle = 0;
  std::optional<double> onnxruntime;  ///< nothing where it isn't installed
};

/// Of each output with floats. `actual`: what Treadle computes from `inputs`. Throws Error where the request's model
/// isn't an ONNX file.
std::vector<Float64Error> Float64Errors(const CompileRequest& request, const NamedTensors& inputs,
                                        const NamedTensors& actual);

}  // namespace treadle::cli
