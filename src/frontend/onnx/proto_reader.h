// SPDX-License-Identifier: Apache-2.0
// Reads ONNX files (protocol buffer messages ModelProto and TensorProto, IR versions 1 to 14) into the structs of
// model.h.
//
// Whatever the bytes are, reading ends in a model whose tensors, names and graphs are sound, or in a
// ModelFormatError of one line that says where the fault is. Checked: the wire format and its nesting; limits on
// names, ranks, nodes and depth; that a tensor's payload has the size of its shape and type; that external data lies
// in a regular file inside the model's directory; that every value is defined once and before it is read (nodes in
// another order are sorted). Not checked here: what operators want of their attributes and inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "frontend/onnx/model.h"

namespace treadle::onnx {

/// What a model may be at most. Errors name the limit.
struct ReadLimits {
  int64_t max_message_bytes = (int64_t{1} << 31) - 1;  ///< protocol buffers' own
  int max_message_depth = 100;                         ///< protocol buffers' own
  int max_subgraph_depth = 32;
  int64_t max_nodes = 1000000;  ///< subgraphs and functions included
  int64_t max_name_bytes = 1 << 20;
  int max_rank = 64;
  int64_t max_node_operands = 1 << 16;  ///< inputs of a node; also outputs and attributes, and those of functions
  int64_t max_memory = 0;               ///< bytes that all parts of the model take; 0: by the size of the file
};

/// What becomes of weights whose bytes in a file are aligned as those of arrays are.
enum class WeightStorage {
  kViews,   ///< arrays are views of the mapped file, which has to stay as it is while they live
  kCopies,  ///< arrays don't depend on the file
};

/// Reads a model file. The file is mapped and stays so while the model or a view of one of its tensors lives.
Model ReadModelFile(const std::string& path, const ReadLimits& limits = {},
                    WeightStorage storage = WeightStorage::kViews);

/// Reads a model from bytes that `owner` keeps alive. `source` is what errors call it. `base_dir` is the directory of
/// its external data; without one a model that has external data is refused.
Model ReadModelBytes(std::string_view bytes, std::shared_ptr<const void> owner, const std::string& source,
                     const std::string& base_dir = "", const ReadLimits& limits = {});

}  // namespace treadle::onnx
