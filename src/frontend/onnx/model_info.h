// SPDX-License-Identifier: Apache-2.0
// What an ONNX model says of itself, for tools that don't import it.
#pragma once

#include <string>
#include <vector>

#include "frontend/onnx/model.h"

namespace treadle::onnx {

/// Inputs of the graph that have no initial value: those that a caller has to give.
std::vector<const ValueInfo*> RequiredInputs(const Model& model);
/// Those that have: their initializers are defaults.
std::vector<const ValueInfo*> OverridableInitializers(const Model& model);

/// JSON: "inputs", "overridable" (initializers that callers may replace), "outputs" (name, type as ONNX writes it such
/// as "tensor(float)", shape: a number, a name, or null each; null where no shape is declared), "graph_name",
/// "producer_name", "domain", "description", "graph_description", "version", "metadata".
std::string ModelInfoJson(const Model& model);

}  // namespace treadle::onnx
