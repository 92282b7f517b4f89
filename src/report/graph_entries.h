// SPDX-License-Identifier: Apache-2.0
// What the graph executor's graph, as JSON, says of its tensors.
#pragma once

#include <cstddef>
#include <string>

#include "report/model_run.h"
#include "treadle/base/json.h"

namespace treadle::report {

/// The graph of a model; null where it runs as a program of the virtual machine.
Json ParseGraph(const ModelRun& run);
/// "float32 [1,3]": the type of a tensor of the graph.
std::string ShapeOf(const Json& graph, size_t entry);

}  // namespace treadle::report
