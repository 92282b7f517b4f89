// SPDX-License-Identifier: Apache-2.0
// Runs a graph of compiled functions. A GraphModel is immutable and shared; each GraphContext runs it for one thread
// at a time and owns nothing but the activations.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "treadle/runtime/graph_spec.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/params.h"
#include "treadle/runtime/sole_user.h"

namespace treadle::runtime {

/// Bytes of memory by use.
struct MemoryReport {
  int64_t params = 0;       ///< weights: shared by all contexts, usually mapped from a file
  int64_t inputs = 0;       ///< buffers of inputs, per context
  int64_t activations = 0;  ///< arena and pool of intermediate results and outputs, per context
};

/// A compiled function that runs all calls of a graph: `data` holds the data pointers of the calls' arguments (inputs,
/// then outputs), call after call. Returns 0, or the number (from 1) of the call that failed.
using GraphMainFunction = int (*)(void* const* data);

/// A graph with its functions found and its parameters in place.
class GraphModel {
 public:
  /// `library` and what it imports hold the functions; `devices` are those that the graph's device types refer to, the
  /// first one the default. Parameters are used in place where they are on the right device and aligned.
  /// Throws ModelFormatError when a function is missing or a parameter doesn't fit.
  GraphModel(GraphSpec spec, Module library, std::vector<Device> devices, const ParamList& params);

  const GraphSpec& spec() const { return spec_; }
  const Module& library() const { return library_; }
  size_t num_inputs() const { return spec_.arg_nodes.size(); }
  size_t num_outputs() const { return spec_.heads.size(); }
  /// Position among the arguments (inputs and parameters, in graph order) of the one called `name`, or -1.
  int InputIndex(const std::string& name) const;
  /// Whether output `output` may be computed in the memory of argument `input`: by a function that touches only what it
  /// changes, and that is the only one to read the argument.
  bool UpdatesInput(size_t output, size_t input) const;
  /// Positions of the arguments that have no parameter: the inputs proper.
  const std::vector<uint32_t>& input_positions() const { return free_inputs_; }
  const std::string& InputName(size_t index) const { return spec_.nodes[spec_.arg_nodes[index]].name; }
  /// What the model calls a parameter; "": nothing, or not known.
  const std::string& ModelName(size_t index) const { return spec_.nodes[spec_.arg_nodes[index]].model_name; }
  /// An input in messages: input "p0" (parameter "conv1.weight" of the model).
  std::string InputText(size_t index) const;
  const GraphSpec::Entry& InputEntry(size_t index) const { return spec_.entries[InputEntryId(index)]; }
  const GraphSpec::Entry& OutputEntry(size_t index) const { return spec_.entries[spec_.EntryId(spec_.heads[index])]; }
  MemoryReport Memory() const;
  /// Whether a run is one call of compiled code.
  bool has_main() const { return main_ != nullptr; }

 private:
  friend class GraphContext;

  /// One call. Arguments are inputs, then outputs.
  struct Op {
    TreadlePackedCFunc function = nullptr;  ///< null: call `packed`
    void* resource = nullptr;
    PackedFunc packed;
    bool is_copy = false;
    uint32_t node = 0;
    uint32_t arg_begin = 0;
    uint32_t num_args = 0;
  };

  /// Calls begin .. end - 1, those of each branch in order; the branches may run at once.
  struct Stage {
    size_t begin = 0, end = 0;
    std::vector<std::vector<size_t>> branches;
  };

  uint32_t InputEntryId(size_t index) const { return spec_.EntryId(spec_.arg_nodes[index], 0); }
  Device DeviceOf(const GraphSpec::Entry& entry) const;
  void FindArenaDevice();
  void ResolveOps();
  void FindMain();
  void BindParams(const ParamList& params);
  void FindAliases();
  /// Throws ModelFormatError where branches of a stage touch what another one writes.
  void FindStages();
  void CheckStage(const Stage& stage) const;
  /// For models that run repeatedly.
  void MoveParamsToHugePages() const;
  bool Overlap(uint32_t a, uint32_t b) const;

  GraphSpec spec_;
  Module library_;
  std::vector<Device> devices_;
  Device arena_device_{};
  std::unordered_map<std::string, uint32_t> input_index_;
  std::vector<NDArray> params_;  ///< by argument position; null for inputs proper
  std::vector<uint32_t> free_inputs_;
  std::vector<Op> ops_;
  std::vector<Stage> stages_;
  GraphMainFunction main_ = nullptr;
  std::vector<uint32_t> arg_slots_;  ///< tensors that the calls' arguments are; see GraphContext::tensors_
  /// Tensors: one per entry, then flattened ones for functions that want them so. Entry and shape of each.
  std::vector<uint32_t> slot_entry_;
  std::vector<int64_t> flat_sizes_;
  /// Entries that are one memory by way of __nop: the first of them, and per such first all their tensors.
  std::vector<uint32_t> alias_root_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> slots_of_root_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> heads_of_root_;
  std::vector<bool> input_rebindable_, output_rebindable_;
};

/// What a profiled run measured of one call.
struct OpTiming {
  std::string name;  ///< the node's
  std::string func_name;
  double start = 0;  ///< seconds since the run began
  double seconds = 0;
  std::string shapes;      ///< types of the arguments: "float32 (1, 3), float32 (3,) -> float32 (1,)"
  std::string compiler{};  ///< external code generator that made the function; "": Treadle
  double macs = 0;         ///< multiply-adds of its convolutions and matrix products as defined; 0: none, or not known
  std::string origin{};    ///< the model's nodes that it computes: "Conv_3, Relu_4"; "" where that isn't known
  bool macs_known = true;
  /// Of programs of the virtual machine, which have no graph: calls of one instruction have the same `site`; whose
  /// results the call reads (positions in the list, -1 - i: the model's input i); which of the model's outputs it
  /// writes.
  int site = -1;
  std::vector<int> sources{}, outputs{};
  double mac_share = 1;  ///< of `macs`, what the kernel's method executes: Winograd's fewer
};

class GraphContext {
 public:
  explicit GraphContext(std::shared_ptr<const GraphModel> model);

  const GraphModel& model() const { return *model_; }
  /// Threads that the calls may use; 0: the calling thread's limit.
  void SetThreads(int threads);

  /// Copies into an argument. Throws Error, ShapeError or DTypeError naming the argument, what it takes and what it
  /// got.
  void SetInput(size_t index, const DLTensor& value);
  void SetInput(const std::string& name, const NDArray& value);
  /// Uses `value`'s memory, which must be compact, aligned as its elements are and on the argument's device.
  void SetInputZeroCopy(size_t index, const NDArray& value);
  /// As SetInputZeroCopy where that is possible, else copies.
  void BindInput(size_t index, const NDArray& value);
  /// Lets go of a value that is used in place: the argument has memory of this context again.
  void ReleaseInput(size_t index) {
    const SoleUser::Use use(&user_);
    if (!input_is_own_.at(index)) UseOwnInput(index);
  }
  NDArray GetInput(size_t index) const;
  /// Result `index` in the context's memory: overwritten by the next run.
  NDArray GetOutput(size_t index) const;
  void CopyOutput(size_t index, const DLTensor& to) const;
  void SetOutputZeroCopy(size_t index, const NDArray& value);
  /// As SetOutputZeroCopy; false, and nothing changed, where the output's memory is used for something else too.
  bool BindOutput(size_t index, const NDArray& value);
  /// Position of an argument; an Error listing the names when there is none.
  size_t RequireInput(const std::string& name) const;

  void Run();
  /// Runs with a time for each call. With `stop_at_nan`, throws VerifyError naming the first call whose result has one.
  std::vector<OpTiming> RunProfiled(bool stop_at_nan = false);
  /// Calls `visit(node, output, value)` after each call of one run; values are the context's memory.
  void RunVisiting(const std::function<void(uint32_t, uint32_t, const NDArray&)>& visit);
  /// Runs only the call of one node (its inputs are what they are).
  void RunNode(uint32_t node);
  /// The value of an entry as it is now.
  NDArray EntryValue(uint32_t entry) const;

  /// Replaces parameters; names that the graph lacks are skipped.
  void LoadParams(const ParamList& params);
  /// Uses `other`'s memory for the parameters called `names`.
  void ShareParams(const GraphContext& other, const std::vector<std::string>& names);

 private:
  using Op = GraphModel::Op;
  void Allocate();
  void BuildTensors();
  void BuildArgs();
  void PointTo(uint32_t entry, const NDArray& value);
  void UseOwnInput(size_t index);
  void CheckFits(const DLTensor& value, const GraphSpec::Entry& entry, const std::string& what) const;
  std::string WhyNotInPlace(const NDArray& value, const GraphSpec::Entry& entry) const;
  void RunMain();
  void RunOp(const Op& op);
  void RunStage(const GraphModel::Stage& stage);
  [[noreturn]] void FailOp(const Op& op, int status, uint64_t errors) const;
  std::string ShapesOf(const Op& op) const;
  /// Throws VerifyError where a result of the call has a NaN.
  void RefuseNan(const Op& op) const;

  std::shared_ptr<const GraphModel> model_;
  mutable SoleUser user_;
  int threads_ = 0;
  int runs_ = 0;  ///< up to the second one
  NDArray arena_;
  std::vector<NDArray> storage_;    ///< by storage id; null where not needed
  std::vector<NDArray> inputs_;     ///< by argument position
  std::vector<bool> input_is_own_;  ///< whether that is this context's memory, rather than the model's or the caller's
  std::vector<NDArray> outputs_;    ///< by head
  std::vector<DLTensor> tensors_;
  std::vector<TreadleValue> values_;
  std::vector<int> codes_;
  std::vector<void*> main_data_;  ///< arguments of the model's main function
  bool main_data_current_ = false;
};

/// A trace that chrome://tracing and ui.perfetto.dev read.
std::string ChromeTrace(const std::vector<OpTiming>& timings);

/// The executor as a module, with the functions set_input, set_input_zero_copy, set_output_zero_copy, get_input,
/// get_output, get_num_inputs, get_num_outputs, get_input_index, run, run_from_inputs, load_params, share_params,
/// benchmark, and with `debug` execute_node, get_node_output, debug_get_output, run_individual, profile, profile_trace,
/// check_nan.
Module MakeGraphExecutorModule(std::shared_ptr<const GraphModel> model, bool debug = false);

/// A module of graph JSON and parameters that makes executors: `name`(device..) and debug_create(name, device..), and
/// get_graph_json, get_params, remove_params. It imports the library.
Module MakeGraphFactoryModule(std::string graph_json, ParamList params, std::string name, const Module& library);

}  // namespace treadle::runtime
