// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph_executor/graph_check.h"

#include <map>

#include "treadle/base/error.h"
#include "treadle/runtime/device.h"

namespace treadle::runtime {
namespace {

class GraphChecker {
 public:
  GraphChecker(const GraphSpec& graph, const std::string& what) : graph_(graph), what_(what) {}

  void Check() const {
    CheckArena();
    CheckDevices();
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      if (graph_.nodes[id].func_name == "__copy") CheckCopy(id);
      if (graph_.nodes[id].func_name == "__nop") CheckNop(id);
    }
  }

 private:
  using Entry = GraphSpec::Entry;

  [[noreturn]] void Fail(const std::string& problem) const { throw ModelFormatError(StrCat(what_, ": ", problem)); }
  std::string NodeName(size_t id) const { return StrCat("node ", id, " (", graph_.nodes[id].name, ")"); }

  void CheckArena() const {
    for (const Entry& entry : graph_.entries) {
      const int64_t offset = entry.arena_offset;
      if (offset == -1) continue;
      if (!graph_.nodes[entry.node].is_op) Fail(StrCat(NodeName(entry.node), ": an input can't lie in the arena"));
      if (offset < 0 || offset % static_cast<int64_t>(kTensorAlignment) != 0 || offset > graph_.arena_bytes ||
          entry.bytes > graph_.arena_bytes - offset) {
        Fail(StrCat("output of ", NodeName(entry.node), ": offset ", offset, " and size ", entry.bytes,
                    " don't fit the arena of ", graph_.arena_bytes, " bytes"));
      }
    }
  }

  void CheckDevices() const {
    std::map<uint32_t, int> device_of;
    for (const Entry& entry : graph_.entries) {
      if (entry.arena_offset >= 0) continue;
      auto [it, inserted] = device_of.emplace(entry.storage_id, entry.device_type);
      if (it->second != entry.device_type) {
        Fail(StrCat("storage ", entry.storage_id, " is on two devices (", it->second, " and ", entry.device_type, ")"));
      }
    }
  }

  void CheckCopy(size_t id) const {
    const GraphSpec::Node& node = graph_.nodes[id];
    if (node.inputs.size() != 1 || node.num_outputs != 1) Fail(StrCat(NodeName(id), ": expected one input and output"));
    if (Input(node, 0).bytes != Output(id, 0).bytes) Fail(StrCat(NodeName(id), ": input and output differ in size"));
  }

  /// One operand with another shape; or, in an arena, operands that lie one after the other where the result is, or
  /// results that do where the operand is.
  void CheckNop(size_t id) const {
    const GraphSpec::Node& node = graph_.nodes[id];
    if (node.inputs.empty() || node.num_outputs == 0 || (node.inputs.size() > 1 && node.num_outputs > 1)) {
      Fail(StrCat(NodeName(id), ": expected one input or one output"));
    }
    const bool joins = node.num_outputs == 1;
    const Entry& whole = joins ? Output(id, 0) : Input(node, 0);
    const size_t parts = joins ? node.inputs.size() : node.num_outputs;
    int64_t offset = whole.arena_offset, bytes = 0;
    for (size_t i = 0; i < parts; ++i) {
      const Entry& part = joins ? Input(node, i) : Output(id, i);
      const bool in_place = part.arena_offset == offset && part.device_type == whole.device_type &&
                            (offset >= 0 ? true : parts == 1 && part.storage_id == whole.storage_id);
      if (!in_place) Fail(StrCat(NodeName(id), ": input and output must share storage"));
      if (part.bytes > whole.bytes - bytes) break;
      bytes += part.bytes;
      if (offset >= 0) offset += part.bytes;
    }
    if (bytes != whole.bytes) Fail(StrCat(NodeName(id), ": input and output differ in size"));
  }

  const Entry& Input(const GraphSpec::Node& node, size_t i) const {
    return graph_.entries[graph_.EntryId(node.inputs[i])];
  }
  const Entry& Output(size_t id, size_t i) const { return graph_.entries[graph_.node_row_ptr[id] + i]; }

  const GraphSpec& graph_;
  const std::string& what_;
};

}  // namespace

void CheckGraph(const GraphSpec& graph, const std::string& what) { GraphChecker(graph, what).Check(); }

}  // namespace treadle::runtime
