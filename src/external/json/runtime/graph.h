// SPDX-License-Identifier: Apache-2.0
// ExampleJSON: graphs as text, one line per node.
//
//   subgraph_0                                  a line of one word starts a graph of that name
//     input 0 10 10                             input <id> <dimensions>, in the order of the arguments
//     const 1 shape: 2 values: 0.5 1            const <id> shape: <dimensions> values: <elements>
//     add 2 inputs: 0 1 shape: 10 10            add, sub or mul; operands are broadcast
//     output 2                                  the results; where it is missing, the last node
// A type other than float32 is given by "dtype: <type>" before the values or at the end. Ids are used once, and before
// they are used as inputs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "treadle/runtime/ndarray.h"

namespace treadle::external {

struct JsonNode {
  enum Op { kInput, kConst, kAdd, kSub, kMul };
  Op op = kInput;
  std::vector<size_t> inputs;  ///< positions in the graph
  std::vector<int64_t> shape;
  DataType dtype = DataType::Float(32);
  runtime::NDArray data;  ///< of kConst
};

struct JsonGraph {
  std::vector<JsonNode> nodes;
  std::vector<size_t> inputs;   ///< nodes, in the order of the arguments
  std::vector<size_t> outputs;  ///< nodes
};

/// The graphs of a text by name. Throws ModelFormatError that names the line.
std::map<std::string, JsonGraph> ParseExampleJson(const std::string& text);

}  // namespace treadle::external
