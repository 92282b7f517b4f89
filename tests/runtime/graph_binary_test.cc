// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "treadle/base/error.h"
#include "treadle/runtime/graph_spec.h"

namespace treadle::runtime {
namespace {

/// x -> f -> (a, b), joined in place to c.
const char* const kGraph = R"({
 "nodes": [{"op":"null","name":"x","inputs":[]},
  {"op":"tvm_op","name":"f","attrs":{"func_name":"f","num_inputs":"1","num_outputs":"2","flatten_data":"0","hash":"12"},
   "inputs":[[0,0,0]]},
  {"op":"tvm_op","name":"join","attrs":{"func_name":"__nop","num_inputs":"2","num_outputs":"1","flatten_data":"0"},
   "inputs":[[1,0,0],[1,1,0]]}],
 "arg_nodes":[0], "heads":[[2,0,0]], "node_row_ptr":[0,1,3,4],
 "attrs": {"shape":["list_shape",[[16],[16],[16],[32]]], "dltype":["list_str",["float32","float32","float32","float32"]],
  "storage_id":["list_int",[0,1,1,1]], "storage_offset":["list_int",[-1,0,64,0]], "arena_bytes":["size_t",128],
  "device_index":["list_int",[1,1,1,1]]}})";

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(GraphBinary, HoldsWhatTheJsonSays) {
  GraphSpec graph = GraphSpec::FromJson(kGraph);
  const std::string bytes = graph.ToBinary();
  GraphSpec back = GraphSpec::FromBinary(bytes);
  EXPECT_EQ(back.ToBinary(), bytes);
  ASSERT_EQ(back.nodes.size(), 3u);
  EXPECT_EQ(back.nodes[1].attrs.at("hash"), "12");
  EXPECT_EQ(back.arg_nodes, graph.arg_nodes);
  EXPECT_EQ(back.node_row_ptr, graph.node_row_ptr);
  EXPECT_EQ(back.entries[3].shape, (std::vector<int64_t>{32}));
  EXPECT_EQ(back.entries[3].bytes, 128);
  EXPECT_EQ(back.entries[2].arena_offset, 64);
}

TEST(GraphBinary, RefusesWhatIsCutOff) {
  const std::string bytes = GraphSpec::FromJson(kGraph).ToBinary();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(GraphSpec::FromBinary(std::string_view(bytes).substr(0, size)), ModelFormatError) << size;
  }
}

TEST(GraphBinary, ChangedBytesAreRefusedOrMakeAnotherGraph) {
  const std::string bytes = GraphSpec::FromJson(kGraph).ToBinary();
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x55);
    try {
      GraphSpec::FromBinary(changed);
    } catch (const ModelFormatError&) {
    }
  }
}

TEST(GraphNop, PiecesMustLieWhereTheWholeIs) {
  GraphSpec::FromJson(kGraph);
  EXPECT_THROW(GraphSpec::FromJson(Replace(kGraph, "[-1,0,64,0]", "[-1,64,0,0]")), ModelFormatError);
  EXPECT_THROW(GraphSpec::FromJson(Replace(kGraph, "[[16],[16],[16],[32]]", "[[16],[16],[16],[31]]")),
               ModelFormatError);
  EXPECT_THROW(GraphSpec::FromJson(Replace(kGraph, "\"storage_offset\":[\"list_int\",[-1,0,64,0]], ", "")),
               ModelFormatError);
}

}  // namespace
}  // namespace treadle::runtime
