// SPDX-License-Identifier: Apache-2.0
// Graphs as bytes: what is loaded instead of JSON, which stays for people and other tools.
//
//   u32 1 (version); u64 nodes; per node: string name, u8 kind (1: operator), and for operators: string function,
//   u8 flatten_data, u32 outputs, u64 inputs, u32 pairs (node, output), u64 attributes, pairs of strings;
//   u64 heads, u32 pairs; u64 arena bytes; u64 entries; per entry: dtype, u64 rank, i64 dimensions, u32 storage,
//   i32 device type, i64 offset in the arena.
#include "runtime/graph_executor/graph_check.h"
#include "treadle/base/error.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::runtime {
namespace {

constexpr uint32_t kVersion = 1;

void WriteRefs(ByteWriter* writer, const std::vector<GraphSpec::Ref>& refs) {
  writer->Write<uint64_t>(refs.size());
  for (GraphSpec::Ref ref : refs) {
    writer->Write<uint32_t>(ref.node);
    writer->Write<uint32_t>(ref.output);
  }
}

class BinaryReader {
 public:
  BinaryReader(std::string_view bytes, const std::string& what) : reader_(bytes, what) {}

  GraphSpec Read() {
    if (reader_.Read<uint32_t>() != kVersion) reader_.Fail("unknown version of the binary graph");
    const uint64_t nodes = Count(9);
    graph_.node_row_ptr.push_back(0);
    for (uint64_t i = 0; i < nodes; ++i) ReadNode();
    graph_.heads = ReadRefs(nodes);
    graph_.arena_bytes = reader_.Read<int64_t>();
    if (graph_.arena_bytes < 0 || graph_.arena_bytes > (int64_t{1} << 48)) reader_.Fail("bad size of the arena");
    const uint64_t entries = Count(20);
    if (entries != graph_.node_row_ptr.back()) reader_.Fail("the number of entries isn't that of the nodes' outputs");
    graph_.entries.resize(entries);
    for (GraphSpec::Entry& entry : graph_.entries) ReadEntry(&entry);
    reader_.ExpectEnd();
    for (uint32_t id = 0; id < graph_.nodes.size(); ++id) {
      for (uint32_t e = graph_.node_row_ptr[id]; e < graph_.node_row_ptr[id + 1]; ++e) graph_.entries[e].node = id;
      if (!graph_.nodes[id].is_op) graph_.arg_nodes.push_back(id);
    }
    CheckGraph(graph_, reader_.what());
    return std::move(graph_);
  }

 private:
  uint64_t Count(uint64_t min_bytes) {
    const uint64_t count = reader_.ReadCount(min_bytes);
    if (count > static_cast<uint64_t>(kMaxGraphCount)) reader_.Fail(StrCat("count ", count, " is too large"));
    return count;
  }

  std::vector<GraphSpec::Ref> ReadRefs(uint64_t limit) {
    std::vector<GraphSpec::Ref> refs(Count(8));
    for (GraphSpec::Ref& ref : refs) {
      ref.node = reader_.Read<uint32_t>();
      ref.output = reader_.Read<uint32_t>();
      if (ref.node >= limit || ref.output >= graph_.nodes[ref.node].num_outputs) {
        reader_.Fail(StrCat("a reference to output ", ref.output, " of node ", ref.node, ", which isn't there"));
      }
    }
    return refs;
  }

  void ReadNode() {
    GraphSpec::Node node;
    node.name = reader_.ReadString();
    node.is_op = reader_.Read<uint8_t>() != 0;
    if (node.is_op) {
      node.func_name = reader_.ReadString();
      node.flatten_data = reader_.Read<uint8_t>() != 0;
      node.num_outputs = reader_.Read<uint32_t>();
      node.inputs = ReadRefs(graph_.nodes.size());
      for (uint64_t i = Count(16); i > 0; --i) {
        std::string key(reader_.ReadString());
        node.attrs[key] = reader_.ReadString();
      }
    }
    if (node.num_outputs > kMaxGraphCount - graph_.node_row_ptr.back()) reader_.Fail("too many outputs");
    graph_.node_row_ptr.push_back(graph_.node_row_ptr.back() + node.num_outputs);
    graph_.nodes.push_back(std::move(node));
  }

  void ReadEntry(GraphSpec::Entry* entry) {
    entry->dtype = DataType(reader_.Read<DLDataType>());
    entry->shape.resize(Count(8));
    if (entry->shape.size() > kMaxGraphRank) reader_.Fail(StrCat("rank ", entry->shape.size(), " is too large"));
    for (int64_t& dim : entry->shape) dim = reader_.Read<int64_t>();
    entry->storage_id = reader_.Read<uint32_t>();
    if (entry->storage_id > kMaxGraphCount) reader_.Fail(StrCat("storage id ", entry->storage_id));
    entry->device_type = reader_.Read<int32_t>();
    entry->arena_offset = reader_.Read<int64_t>();
    try {
      entry->bytes = TensorBytes(entry->shape, entry->dtype);
    } catch (const Error& error) {
      reader_.Fail(error.what());
    }
  }

  ByteReader reader_;
  GraphSpec graph_;
};

}  // namespace

std::string GraphSpec::ToBinary() const {
  ByteWriter writer;
  writer.Write<uint32_t>(kVersion);
  writer.Write<uint64_t>(nodes.size());
  for (const Node& node : nodes) {
    writer.WriteString(node.name);
    writer.Write<uint8_t>(node.is_op ? 1 : 0);
    if (!node.is_op) continue;
    writer.WriteString(node.func_name);
    writer.Write<uint8_t>(node.flatten_data ? 1 : 0);
    writer.Write<uint32_t>(node.num_outputs);
    WriteRefs(&writer, node.inputs);
    writer.Write<uint64_t>(node.attrs.size());
    for (const auto& [key, value] : node.attrs) {
      writer.WriteString(key);
      writer.WriteString(value);
    }
  }
  WriteRefs(&writer, heads);
  writer.Write<int64_t>(arena_bytes);
  writer.Write<uint64_t>(entries.size());
  for (const Entry& entry : entries) {
    writer.Write<DLDataType>(entry.dtype);
    writer.Write<uint64_t>(entry.shape.size());
    for (int64_t dim : entry.shape) writer.Write<int64_t>(dim);
    writer.Write<uint32_t>(entry.storage_id);
    writer.Write<int32_t>(entry.device_type);
    writer.Write<int64_t>(entry.arena_offset);
  }
  return std::move(writer.bytes());
}

GraphSpec GraphSpec::FromBinary(std::string_view bytes, const std::string& what) {
  return BinaryReader(bytes, what).Read();
}

}  // namespace treadle::runtime
