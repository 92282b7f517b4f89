// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/graph_spec.h"

#include <charconv>
#include <unordered_set>

#include "runtime/graph_executor/graph_check.h"
#include "runtime/json.h"
#include "treadle/base/error.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::runtime {
namespace {

class GraphReader {
 public:
  GraphReader(std::string_view text, std::string what) : what_(std::move(what)), root_(JsonValue::Parse(text, what_)) {}

  GraphSpec Read() {
    ReadNodes();
    ReadModelNames();
    ReadRowPtr();
    ReadArgNodes();
    ReadHeads();
    ReadEntries();
    CheckGraph(graph_, what_);
    return std::move(graph_);
  }

 private:
  [[noreturn]] void Fail(const std::string& problem) const { throw ModelFormatError(StrCat(what_, ": ", problem)); }
  std::string NodeName(size_t id) const { return StrCat("node ", id, " (", graph_.nodes[id].name, ")"); }

  /// A reference [node, output] or [node, output, version] to a node below `limit`.
  GraphSpec::Ref ReadRef(const JsonValue& json, size_t limit, const std::string& where) const {
    std::vector<int64_t> numbers = json.AsInts(where);
    if (numbers.size() != 2 && numbers.size() != 3) Fail(StrCat(where, ": a reference is [node, output, version]"));
    if (numbers[0] < 0 || numbers[0] >= static_cast<int64_t>(limit)) {
      Fail(StrCat(where, ": refers to node ", numbers[0], ", which doesn't come before it"));
    }
    auto node = static_cast<uint32_t>(numbers[0]);
    if (numbers[1] < 0 || numbers[1] >= graph_.nodes[node].num_outputs) {
      Fail(StrCat(where, ": refers to output ", numbers[1], " of ", NodeName(node), ", which has ",
                  graph_.nodes[node].num_outputs));
    }
    return {node, static_cast<uint32_t>(numbers[1])};
  }

  int64_t ReadNumberAttr(const JsonValue& attrs, const char* key, const std::string& where) const {
    const std::string& text = attrs.At(key, where).AsString(where + "." + key);
    int64_t value = -1;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kMaxGraphCount) {
      Fail(StrCat(where, ": attribute ", key, " is \"", text, "\", not a count"));
    }
    return value;
  }

  void ReadOp(const JsonValue& json, size_t id, GraphSpec::Node* node, const std::string& where) {
    const JsonValue* attrs = json.Find("attrs");
    if (attrs == nullptr) attrs = &json.At("attr", where);
    node->func_name = attrs->At("func_name", where).AsString(where + ".func_name");
    int64_t num_inputs = ReadNumberAttr(*attrs, "num_inputs", where);
    node->num_outputs = static_cast<uint32_t>(ReadNumberAttr(*attrs, "num_outputs", where));
    node->flatten_data = ReadNumberAttr(*attrs, "flatten_data", where) != 0;
    for (const auto& [key, value] : attrs->AsObject(where)) {
      if (key == "func_name" || key == "num_inputs" || key == "num_outputs" || key == "flatten_data") continue;
      node->attrs[key] = value.AsString(where + "." + key);
    }
    const auto& inputs = json.At("inputs", where).AsArray(where + ".inputs");
    if (static_cast<int64_t>(inputs.size()) != num_inputs) {
      Fail(StrCat(where, ": has ", inputs.size(), " inputs where its attribute says ", num_inputs));
    }
    for (const JsonValue& input : inputs) node->inputs.push_back(ReadRef(input, id, where));
  }

  void ReadNodes() {
    const auto& nodes = root_.At("nodes", what_).AsArray(what_ + ".nodes");
    if (static_cast<int64_t>(nodes.size()) > kMaxGraphCount) Fail("too many nodes");
    std::unordered_set<std::string> input_names;
    for (size_t id = 0; id < nodes.size(); ++id) {
      const JsonValue& json = nodes[id];
      std::string where = StrCat(what_, ": node ", id);
      GraphSpec::Node node;
      node.name = json.At("name", where).AsString(where + ".name");
      const std::string& op = json.At("op", where).AsString(where + ".op");
      if (op == "tvm_op") {
        node.is_op = true;
        ReadOp(json, id, &node, StrCat(where, " (", node.name, ")"));
      } else if (op == "null") {
        if (!json.At("inputs", where).AsArray(where).empty()) Fail(StrCat(where, ": an input can't have inputs"));
        if (!input_names.insert(node.name).second) Fail(StrCat("two inputs are called \"", node.name, "\""));
      } else {
        Fail(StrCat(where, ": unknown kind \"", op, "\""));
      }
      graph_.nodes.push_back(std::move(node));
    }
  }

  /// What the model calls parameters: for messages only, so other forms of metadata are left alone.
  void ReadModelNames() {
    const JsonValue* metadata = root_.Find("metadata");
    const JsonValue* names = metadata != nullptr && metadata->is_object() ? metadata->Find("param_names") : nullptr;
    if (names == nullptr || !names->is_object()) return;
    for (GraphSpec::Node& node : graph_.nodes) {
      if (node.is_op) continue;
      const JsonValue* name = names->Find(node.name);
      if (name != nullptr && name->is_string()) node.model_name = name->AsString(what_);
    }
  }

  void ReadRowPtr() {
    std::vector<int64_t> row_ptr = root_.At("node_row_ptr", what_).AsInts(what_ + ".node_row_ptr");
    if (row_ptr.size() != graph_.nodes.size() + 1) {
      Fail(StrCat("node_row_ptr has ", row_ptr.size(), " elements for ", graph_.nodes.size(), " nodes"));
    }
    int64_t sum = 0;
    for (size_t i = 0; i <= graph_.nodes.size(); ++i) {
      if (row_ptr[i] != sum) Fail(StrCat("node_row_ptr[", i, "] is ", row_ptr[i], " where ", sum, " was expected"));
      graph_.node_row_ptr.push_back(static_cast<uint32_t>(sum));
      if (i < graph_.nodes.size()) sum += graph_.nodes[i].num_outputs;
      if (sum > kMaxGraphCount) Fail("too many outputs");
    }
  }

  void ReadArgNodes() {
    std::vector<bool> listed(graph_.nodes.size(), false);
    for (int64_t id : root_.At("arg_nodes", what_).AsInts(what_ + ".arg_nodes")) {
      if (id < 0 || id >= static_cast<int64_t>(graph_.nodes.size())) Fail(StrCat("arg_nodes: there is no node ", id));
      if (graph_.nodes[id].is_op) Fail(StrCat("arg_nodes: ", NodeName(id), " is an operator"));
      if (listed[id]) Fail(StrCat("arg_nodes: ", NodeName(id), " is listed twice"));
      listed[id] = true;
      graph_.arg_nodes.push_back(static_cast<uint32_t>(id));
    }
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      if (!graph_.nodes[id].is_op && !listed[id]) Fail(StrCat("arg_nodes: ", NodeName(id), " is missing"));
    }
  }

  void ReadHeads() {
    for (const JsonValue& head : root_.At("heads", what_).AsArray(what_ + ".heads")) {
      graph_.heads.push_back(ReadRef(head, graph_.nodes.size(), what_ + ".heads"));
    }
  }

  /// The list of attribute `key`, whose kind must be `kind`; null when absent and not `required`.
  const JsonValue* Attr(const char* key, const char* kind, bool required) const {
    const JsonValue& attrs = root_.At("attrs", what_);
    std::string where = StrCat(what_, ".attrs.", key);
    const JsonValue* attr = required ? &attrs.At(key, what_ + ".attrs") : attrs.Find(key);
    if (attr == nullptr) return nullptr;
    const auto& pair = attr->AsArray(where);
    if (pair.size() != 2 || pair[0].AsString(where) != kind)
      Fail(StrCat("attrs.", key, ": expected [\"", kind, "\", ..]"));
    return &pair[1];
  }

  void ExpectEntries(size_t found, const char* key) const {
    if (found != graph_.entries.size()) {
      Fail(StrCat("attrs.", key, " has ", found, " elements for ", graph_.entries.size(), " entries"));
    }
  }

  void ReadEntries() {
    auto& entries = graph_.entries;
    entries.resize(graph_.node_row_ptr.back());
    const auto& shapes = Attr("shape", "list_shape", true)->AsArray(what_ + ".attrs.shape");
    std::vector<std::string> dtypes = Attr("dltype", "list_str", true)->AsStrings(what_ + ".attrs.dltype");
    std::vector<int64_t> storage = Attr("storage_id", "list_int", true)->AsInts(what_ + ".attrs.storage_id");
    ExpectEntries(shapes.size(), "shape");
    ExpectEntries(dtypes.size(), "dltype");
    ExpectEntries(storage.size(), "storage_id");
    for (size_t node = 0; node < graph_.nodes.size(); ++node) {
      for (uint32_t e = graph_.node_row_ptr[node]; e < graph_.node_row_ptr[node + 1]; ++e) {
        entries[e].node = static_cast<uint32_t>(node);
      }
    }
    for (size_t e = 0; e < entries.size(); ++e) {
      std::string where = StrCat(what_, ": output of ", NodeName(entries[e].node));
      entries[e].shape = shapes[e].AsInts(where + ": shape");
      if (entries[e].shape.size() > kMaxGraphRank) Fail(StrCat("rank ", entries[e].shape.size(), " is too large"));
      if (storage[e] < 0 || storage[e] > kMaxGraphCount) Fail(StrCat(where, ": storage id ", storage[e]));
      entries[e].storage_id = static_cast<uint32_t>(storage[e]);
      try {
        entries[e].dtype = DataType::FromString(dtypes[e]);
        entries[e].bytes = TensorBytes(entries[e].shape, entries[e].dtype);
      } catch (const Error& error) {
        throw ModelFormatError(StrCat(where, ": ", error.what()));
      }
    }
    if (const JsonValue* devices = Attr("device_index", "list_int", false)) {
      std::vector<int64_t> types = devices->AsInts(what_ + ".attrs.device_index");
      ExpectEntries(types.size(), "device_index");
      for (size_t e = 0; e < entries.size(); ++e) entries[e].device_type = static_cast<int>(types[e]);
    }
    ReadArena();
  }

  void ReadArena() {
    const JsonValue* list = Attr("storage_offset", "list_int", false);
    if (list == nullptr) return;
    graph_.arena_bytes =
        Attr("arena_bytes", "size_t", true)->AsIntIn(0, int64_t{1} << 48, what_ + ".attrs.arena_bytes");
    std::vector<int64_t> offsets = list->AsInts(what_ + ".attrs.storage_offset");
    ExpectEntries(offsets.size(), "storage_offset");
    for (size_t e = 0; e < offsets.size(); ++e) graph_.entries[e].arena_offset = offsets[e];
  }

  std::string what_;
  JsonValue root_;
  GraphSpec graph_;
};

}  // namespace

GraphSpec GraphSpec::FromJson(std::string_view text, const std::string& what) { return GraphReader(text, what).Read(); }

}  // namespace treadle::runtime
