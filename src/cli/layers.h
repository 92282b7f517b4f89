// SPDX-License-Identifier: Apache-2.0
// Comparing every value of a model with ONNX Runtime's.
#pragma once

#include <string>
#include <vector>

#include "cli/compare.h"
#include "cli/compiler_api.h"

namespace treadle::cli {

/// A value of the model and how far it is from the reference's.
struct LayerComparison {
  std::string name;
  Difference difference;
};

/// Compiles and runs a copy of request.model (an .onnx file) that gives out the result of every operator. In the
/// model's order.
std::vector<LayerComparison> CompareLayers(const CompileRequest& request, const NamedTensors& inputs,
                                           const Tolerance& tolerance, int threads);

/// Outputs of a model beside a reference's, by name. Throws Error for an output that the reference lacks.
std::vector<LayerComparison> CompareOutputs(const NamedTensors& actual, const NamedTensors& expected,
                                            const Tolerance& tolerance);

}  // namespace treadle::cli
