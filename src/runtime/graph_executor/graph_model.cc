// SPDX-License-Identifier: Apache-2.0
// The part of the graph executor that is made once per model.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "runtime/hash64.h"
#include "runtime/library_module.h"
#include "treadle/base/error.h"
#include "treadle/base/text.h"
#include "treadle/runtime/graph_executor.h"

namespace treadle::runtime {
namespace {

/// Of a stage: branches, and nodes.
constexpr size_t kMaxBranches = 4096;

}  // namespace

std::string GraphModel::InputText(size_t index) const {
  const std::string& own = ModelName(index);
  return StrCat("input \"", InputName(index), "\"",
                own.empty() ? "" : StrCat(" (parameter \"", own, "\" of the model)"));
}

GraphModel::GraphModel(GraphSpec spec, Module library, std::vector<Device> devices, const ParamList& params)
    : spec_(std::move(spec)), library_(std::move(library)), devices_(std::move(devices)) {
  if (devices_.empty()) throw Error("a graph executor needs at least one device");
  for (size_t i = 0; i < num_inputs(); ++i) input_index_[InputName(i)] = static_cast<uint32_t>(i);
  FindArenaDevice();
  ResolveOps();
  FindMain();
  BindParams(params);
  FindAliases();
  FindStages();
}

void GraphModel::FindArenaDevice() {
  arena_device_ = devices_[0];
  bool found = false;
  for (const GraphSpec::Entry& entry : spec_.entries) {
    const Device device = DeviceOf(entry);  // also checks that there is one for each value
    if (entry.arena_offset < 0) continue;
    if (found && !SameDevice(device, arena_device_)) {
      throw ModelFormatError(StrCat("an arena can't hold values of ", DeviceName(arena_device_), " and of ",
                                    DeviceName(device), "; plan memory by storage ids for several devices"));
    }
    arena_device_ = device;
    found = true;
  }
}

int GraphModel::InputIndex(const std::string& name) const {
  auto it = input_index_.find(name);
  return it == input_index_.end() ? -1 : static_cast<int>(it->second);
}

Device GraphModel::DeviceOf(const GraphSpec::Entry& entry) const {
  if (entry.device_type < 0) return devices_[0];
  for (Device device : devices_) {
    if (device.device_type == entry.device_type) return device;
  }
  throw Error(StrCat("the graph uses device ", DeviceTypeName(entry.device_type),
                     ", but none of that type was given to the executor"));
}

void GraphModel::ResolveOps() {
  for (uint32_t e = 0; e < spec_.entries.size(); ++e) slot_entry_.push_back(e);
  for (uint32_t id = 0; id < spec_.nodes.size(); ++id) {
    const GraphSpec::Node& node = spec_.nodes[id];
    if (!node.is_op || node.func_name == "__nop") continue;
    Op op;
    op.node = id;
    op.arg_begin = static_cast<uint32_t>(arg_slots_.size());
    std::vector<uint32_t> entries;
    for (GraphSpec::Ref input : node.inputs) entries.push_back(spec_.EntryId(input));
    for (uint32_t k = 0; k < node.num_outputs; ++k) entries.push_back(spec_.EntryId(id, k));
    op.num_args = static_cast<uint32_t>(entries.size());
    for (uint32_t entry : entries) {
      uint32_t slot = entry;
      if (node.flatten_data) {
        slot = static_cast<uint32_t>(slot_entry_.size());
        slot_entry_.push_back(entry);
        const GraphSpec::Entry& e = spec_.entries[entry];
        flat_sizes_.push_back(e.bytes / std::max<int64_t>(1, ElementBytes(e.dtype)));
      }
      arg_slots_.push_back(slot);
    }
    op.is_copy = node.func_name == "__copy";
    if (!op.is_copy) {
      TREADLE_ICHECK(library_.defined()) << "a graph with operators needs a library";
      op.packed = library_.GetFunction(node.func_name, true);
      if (!op.packed) {
        throw ModelFormatError(StrCat("function \"", node.func_name, "\" of node ", id, " (", node.name,
                                      ") isn't in the library or in what it imports"));
      }
      op.function = op.packed->c_func();
      op.resource = op.packed->c_resource();
    }
    ops_.push_back(std::move(op));
  }
}

namespace {

/// The first library of compiled code among a module and its imports, or null.
const LibraryModuleNode* FindLibrary(const Module& module) {
  if (!module.defined()) return nullptr;
  if (const auto* library = dynamic_cast<const LibraryModuleNode*>(module.get())) return library;
  for (const Module& import : module.imports()) {
    if (const LibraryModuleNode* library = FindLibrary(import)) return library;
  }
  return nullptr;
}

}  // namespace

void GraphModel::FindMain() {
  const LibraryModuleNode* library = FindLibrary(library_);
  if (library == nullptr || library->blob() == nullptr || ops_.empty()) return;
  // It belongs to the graph that it was compiled from; another one may use the library too.
  const auto section = library->blob()->Section("main");
  if (!section || section->size() != sizeof(uint64_t)) return;
  uint64_t compiled_for = 0;
  std::memcpy(&compiled_for, section->data(), sizeof(compiled_for));
  for (const GraphSpec::Entry& entry : spec_.entries) {
    if (DeviceOf(entry).device_type != kDLCPU) return;
  }
  if (Hash64(spec_.ToBinary()) != compiled_for) return;
  main_ = reinterpret_cast<GraphMainFunction>(library->Symbol("__treadle_main__"));
}

void GraphModel::MoveParamsToHugePages() const {
  if (const LibraryModuleNode* library = FindLibrary(library_)) library->MoveParamsToHugePages();
}

void GraphModel::BindParams(const ParamList& given) {
  params_.resize(num_inputs());
  ParamList params = given;
  if (params.empty() && library_.defined()) {
    if (PackedFunc lookup = library_.GetFunction(kLookupLinkedParam, true)) {
      for (size_t i = 0; i < num_inputs(); ++i) {
        RetValue found = lookup(InputName(i));
        if (!found.is_null()) params.emplace_back(InputName(i), found.As<NDArray>());
      }
    }
  }
  for (const auto& [name, array] : params) {
    int index = InputIndex(name);
    if (index < 0) continue;  // belongs to an external module, or isn't used
    const GraphSpec::Entry& entry = InputEntry(static_cast<size_t>(index));
    if (array.dtype() != entry.dtype || array.shape() != entry.shape) {
      throw ModelFormatError(StrCat("parameter \"", name, "\" is ", array.dtype(), " ", ShapeString(array.shape()),
                                    " where the graph says ", entry.dtype, " ", ShapeString(entry.shape)));
    }
    Device device = DeviceOf(entry);
    bool aligned = reinterpret_cast<uintptr_t>(array.data_ptr()) % kTensorAlignment == 0;
    bool in_place =
        SameDevice(array.device(), device) && array.IsCompact() && aligned && array->tensor.byte_offset == 0;
    params_[static_cast<size_t>(index)] = in_place ? array : array.Copy(device);
  }
  for (uint32_t i = 0; i < num_inputs(); ++i) {
    if (!params_[i].defined()) free_inputs_.push_back(i);
  }
}

bool GraphModel::Overlap(uint32_t a, uint32_t b) const {
  const GraphSpec::Entry &x = spec_.entries[a], &y = spec_.entries[b];
  if ((x.arena_offset < 0) != (y.arena_offset < 0)) return false;
  if (x.arena_offset < 0) return x.storage_id == y.storage_id;
  return x.arena_offset < y.arena_offset + y.bytes && y.arena_offset < x.arena_offset + x.bytes;
}

void GraphModel::FindAliases() {
  alias_root_.resize(spec_.entries.size());
  for (uint32_t e = 0; e < alias_root_.size(); ++e) alias_root_[e] = e;
  for (uint32_t id = 0; id < spec_.nodes.size(); ++id) {
    const GraphSpec::Node& node = spec_.nodes[id];
    const bool reshapes = node.func_name == "__nop" && node.inputs.size() == 1 && node.num_outputs == 1;
    if (reshapes) alias_root_[spec_.EntryId(id, 0)] = alias_root_[spec_.EntryId(node.inputs[0])];
  }
  auto rebindable = [&](uint32_t entry) {
    for (uint32_t other = 0; other < spec_.entries.size(); ++other) {
      if (alias_root_[other] != alias_root_[entry] && Overlap(entry, other)) return false;
    }
    return true;
  };
  for (uint32_t k = 0; k < spec_.heads.size(); ++k) {
    heads_of_root_[alias_root_[spec_.EntryId(spec_.heads[k])]].push_back(k);
  }
  std::vector<bool> is_argument(spec_.entries.size(), false);
  for (size_t i = 0; i < num_inputs(); ++i) is_argument[InputEntryId(i)] = true;
  for (size_t i = 0; i < num_inputs(); ++i) {
    input_rebindable_.push_back(params_[i].defined() || rebindable(InputEntryId(i)));
  }
  for (GraphSpec::Ref head : spec_.heads) {
    uint32_t root = alias_root_[spec_.EntryId(head)];
    // Neither an argument returned as it is, nor one value returned twice.
    output_rebindable_.push_back(!is_argument[root] && heads_of_root_[root].size() == 1 && rebindable(root));
  }
  for (uint32_t slot = 0; slot < slot_entry_.size(); ++slot) {
    slots_of_root_[alias_root_[slot_entry_[slot]]].push_back(slot);
  }
}

void GraphModel::FindStages() {
  std::string_view last;
  for (size_t i = 0; i < ops_.size(); ++i) {
    const GraphSpec::Node& node = spec_.nodes[ops_[i].node];
    const auto attr = node.attrs.find(kBranch);
    if (attr == node.attrs.end()) {
      last = {};
      continue;
    }
    const std::string_view text = attr->second;
    const size_t dot = text.find('.');
    const auto branch = dot == text.npos ? std::nullopt : ParseInt(text.substr(dot + 1));
    if (!branch || *branch < 0 || *branch >= static_cast<int64_t>(kMaxBranches)) {
      throw ModelFormatError(StrCat("node ", ops_[i].node, " (", node.name, "): \"", text, "\" isn't a branch"));
    }
    if (text.substr(0, dot) != last) stages_.push_back({i, i, {}});
    last = text.substr(0, dot);
    Stage& stage = stages_.back();
    stage.end = i + 1;
    stage.branches.resize(std::max(stage.branches.size(), static_cast<size_t>(*branch) + 1));
    stage.branches[static_cast<size_t>(*branch)].push_back(i);
  }
  for (const Stage& stage : stages_) CheckStage(stage);
}

void GraphModel::CheckStage(const Stage& stage) const {
  if (stage.end - stage.begin > kMaxBranches) throw ModelFormatError("a stage of branches has too many nodes");
  const auto entries_of = [&](size_t op, bool only_outputs) {
    const GraphSpec::Node& node = spec_.nodes[ops_[op].node];
    std::vector<uint32_t> entries;
    for (uint32_t k = 0; k < node.num_outputs; ++k) entries.push_back(spec_.EntryId(ops_[op].node, k));
    for (size_t k = 0; k < node.inputs.size() && !only_outputs; ++k) entries.push_back(spec_.EntryId(node.inputs[k]));
    return entries;
  };
  for (size_t a = 0; a < stage.branches.size(); ++a) {
    for (size_t b = 0; b < stage.branches.size(); ++b) {
      if (a == b) continue;
      for (size_t writer : stage.branches[a]) {
        const std::vector<uint32_t> written = entries_of(writer, true);
        for (size_t other : stage.branches[b]) {
          for (uint32_t touched : entries_of(other, false)) {
            if (std::none_of(written.begin(), written.end(), [&](uint32_t e) { return Overlap(e, touched); })) continue;
            throw ModelFormatError(StrCat("node ", ops_[writer].node, " (", spec_.nodes[ops_[writer].node].name,
                                          ") writes what node ", ops_[other].node, " of another branch uses"));
          }
        }
      }
    }
  }
}

bool GraphModel::UpdatesInput(size_t output, size_t input) const {
  const GraphSpec::Ref head = spec_.heads[output];
  const GraphSpec::Node& node = spec_.nodes[head.node];
  const uint32_t argument = spec_.arg_nodes[input];
  if (!node.is_op || node.attrs.count(kUpdatesOperand) == 0 || node.inputs.empty()) return false;
  if (node.inputs[0].node != argument || params_[input].defined()) return false;
  auto reads = [argument](const std::vector<GraphSpec::Ref>& refs) {
    return std::count_if(refs.begin(), refs.end(), [&](GraphSpec::Ref ref) { return ref.node == argument; });
  };
  auto count = reads(spec_.heads);
  for (const GraphSpec::Node& other : spec_.nodes) count += reads(other.inputs);
  return count == 1;
}

MemoryReport GraphModel::Memory() const {
  MemoryReport report;
  for (const NDArray& param : params_) {
    if (param.defined()) report.params += param.nbytes();
  }
  for (uint32_t i : free_inputs_) report.inputs += InputEntry(i).bytes;
  report.activations = spec_.arena_bytes;
  std::unordered_map<uint32_t, int64_t> pool;
  for (const GraphSpec::Entry& entry : spec_.entries) {
    if (entry.arena_offset >= 0) continue;
    int64_t& bytes = pool[entry.storage_id];
    bytes = std::max(bytes, entry.bytes);
  }
  for (size_t i = 0; i < num_inputs(); ++i) pool.erase(InputEntry(i).storage_id);
  for (const auto& [id, bytes] : pool) report.activations += bytes;
  return report;
}

}  // namespace treadle::runtime
