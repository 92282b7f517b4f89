// SPDX-License-Identifier: Apache-2.0
// What the reader checks of a model once it is parsed.
#pragma once

#include <string>

#include "frontend/onnx/mapped_file.h"
#include "frontend/onnx/model.h"
#include "frontend/onnx/proto_reader.h"

namespace treadle::onnx {

/// Checks type, rank, dimensions and size of payload of a tensor, and sets `raw` of one with external data.
/// `where` begins the messages of ModelFormatErrors.
void FinishTensor(Tensor& tensor, const std::string& where, ExternalFiles& files, const ReadLimits& limits);

/// Checks values and indices of a sparse tensor (both already finished): lengths, range and order of the indices.
void CheckSparseTensor(const SparseTensor& tensor, const std::string& where, const ReadLimits& limits);

/// Checks the graph and its subgraphs: names defined once, every input defined, every output there. Puts the nodes
/// into an order of computation when they aren't in one, changing as little as possible; a cycle is an error.
void CheckGraph(Model& model);

}  // namespace treadle::onnx
