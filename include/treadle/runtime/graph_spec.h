// SPDX-License-Identifier: Apache-2.0
// The graph that the graph executor runs, as JSON.
//
// The object has the keys "nodes", "arg_nodes", "heads", "attrs" and "node_row_ptr":
//   nodes: inputs and parameters {"op":"null","name":n,"inputs":[]}, and operators {"op":"tvm_op","name":n,
//     "attrs":{"func_name","num_inputs","num_outputs","flatten_data", ...}, "inputs":[[node, output, 0], ...]} whose
//     attribute values are strings. Nodes come after what they use.
//   arg_nodes: the null nodes. heads: [[node, output, 0], ...], the results.
//   node_row_ptr: prefix sums of the nodes' numbers of outputs; output k of node n is entry node_row_ptr[n] + k.
//   attrs, by entry: "shape":["list_shape",[[..],..]], "storage_id":["list_int",[..]], "dltype":["list_str",[..]],
//     optional "device_index":["list_int",[..]] (device types).
// Treadle's own, optional: "storage_offset":["list_int",[..]], the entry's byte offset in one arena of
//   "arena_bytes":["size_t",n] bytes, or -1 for an entry that has the storage of its storage_id. Inputs and parameters
//   are never in the arena. Offsets are multiples of 64.
// Attribute "updates_operand" of a node, "1": where its output lies in the memory of its first input, its function
// touches only what it changes.
// Attribute "branch" of a node, "<stage>.<branch>" (numbers): nodes of a stage follow each other, but for nodes without
//   work; those of different branches run side by side.
// Two functions are the executor's: "__nop" and "__copy" (between devices). "__nop" does nothing: its output is its
// input with another shape; or, in the arena, its inputs lie one after the other where its output is, or its outputs
// where its input is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "treadle/runtime/data_type.h"

namespace treadle::runtime {

inline constexpr const char* kUpdatesOperand = "updates_operand";
inline constexpr const char* kBranch = "branch";

struct GraphSpec {
  struct Ref {
    uint32_t node;
    uint32_t output;
  };
  struct Node {
    std::string name;
    std::string model_name;  ///< of a parameter: what the model calls it; "": nothing, or not known
    bool is_op = false;
    std::string func_name;
    bool flatten_data = false;
    uint32_t num_outputs = 1;
    std::vector<Ref> inputs;
    std::map<std::string, std::string> attrs;  ///< further attributes, such as "hash"
  };
  /// One tensor of the graph.
  struct Entry {
    std::vector<int64_t> shape;
    DataType dtype;
    int64_t bytes = 0;
    uint32_t storage_id = 0;
    int device_type = -1;       ///< -1: the executor's first device
    int64_t arena_offset = -1;  ///< -1: not in the arena
    uint32_t node = 0;
  };

  std::vector<Node> nodes;
  std::vector<uint32_t> arg_nodes;
  std::vector<Ref> heads;
  std::vector<uint32_t> node_row_ptr;
  std::vector<Entry> entries;
  int64_t arena_bytes = 0;

  uint32_t EntryId(Ref ref) const { return node_row_ptr[ref.node] + ref.output; }
  uint32_t EntryId(uint32_t node, uint32_t output) const { return node_row_ptr[node] + output; }

  /// Reads and checks a graph: everything that refers to something refers to what exists, comes before, has the right
  /// size. Throws ModelFormatError; `what` is named in errors.
  static GraphSpec FromJson(std::string_view text, const std::string& what = "graph");
  /// The graph as bytes: quicker to read than JSON. Reading checks what reading JSON checks.
  std::string ToBinary() const;
  static GraphSpec FromBinary(std::string_view bytes, const std::string& what = "graph");
};

}  // namespace treadle::runtime
