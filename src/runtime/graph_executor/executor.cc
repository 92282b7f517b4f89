// SPDX-License-Identifier: Apache-2.0
// The graph executor as Model runs it.
#include <utility>

#include "runtime/executors.h"
#include "runtime/library_module.h"
#include "treadle/runtime/graph_executor.h"

namespace treadle::runtime {
namespace {

class GraphExecution final : public ExecutionContext {
 public:
  GraphExecution(std::shared_ptr<const GraphModel> model, std::shared_ptr<const std::vector<uint32_t>> positions)
      : context_(std::move(model)),
        positions_(std::move(positions)),
        outputs_(context_.model().num_outputs()),
        spare_(outputs_.size()),
        is_bound_(outputs_.size()) {}

  void SetInput(size_t index, const NDArray& value) override { context_.BindInput((*positions_)[index], value); }
  void CopyInput(size_t index, const DLTensor& value) override { context_.SetInput((*positions_)[index], value); }
  void SetThreads(int threads) override { context_.SetThreads(threads); }
  void Run() override {
    PrepareOutputs();
    context_.Run();
  }
  std::vector<OpTiming> RunProfiled(bool stop_at_nan) override {
    PrepareOutputs();
    return context_.RunProfiled(stop_at_nan);
  }
  NDArray GetOutput(size_t index, bool owned) override {
    // A model's results are on the CPU, wherever it runs.
    if (NDArray output = context_.GetOutput(index); output.device().device_type != kDLCPU) return output.Copy();
    if (!owned) return context_.GetOutput(index);
    if (outputs_[index].defined()) return outputs_[index];
    return context_.GetOutput(index).Copy();
  }
  bool BindState(size_t input, size_t output, const NDArray& value) override {
    const uint32_t position = (*positions_)[input];
    if (!context_.model().UpdatesInput(output, position) || !context_.BindOutput(output, value)) return false;
    context_.BindInput(position, value);
    outputs_[output] = value;
    is_bound_[output] = true;
    return true;
  }
  bool BindOutput(size_t index, const NDArray& value) override {
    if (!value.defined()) {  // the next run binds memory of its own
      if (is_bound_[index]) outputs_[index] = MakeOutput(index);
      is_bound_[index] = false;
      return true;
    }
    if (!context_.BindOutput(index, value)) return false;
    outputs_[index] = value;
    is_bound_[index] = true;
    return true;
  }
  void ReleaseInputs() override {
    for (uint32_t position : *positions_) context_.ReleaseInput(position);
  }
  GraphContext* graph() override { return &context_; }

 private:
  /// Lets the run write each output into a tensor that nobody else holds, where the plan allows that.
  void PrepareOutputs() {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      NDArray& output = outputs_[i];
      if (is_bound_[i]) continue;
      // The other reference is the context's.
      if (output.defined() && output->use_count() <= 2) continue;
      if (!output.defined() && tried_) continue;
      NDArray next = NextOutput(i);
      spare_[i] = std::exchange(output, std::move(next));
    }
    tried_ = true;
  }

  /// The tensor before the last one, where its holders are gone: a loop drops a result once the next one is there, and
  /// new memory is zeroed page by page. Else a new one; null as MakeOutput.
  NDArray NextOutput(size_t index) {
    NDArray& spare = spare_[index];
    const bool is_free = spare.defined() && spare->use_count() == 1 && context_.BindOutput(index, spare);
    return is_free ? std::exchange(spare, NDArray()) : MakeOutput(index);
  }

  /// Memory that the context writes result `index` to; null where the plan doesn't allow that.
  NDArray MakeOutput(size_t index) {
    const GraphSpec::Entry& entry = context_.model().OutputEntry(index);
    NDArray fresh = NDArray::Empty(entry.shape, entry.dtype, context_.GetOutput(index).device());
    return context_.BindOutput(index, fresh) ? fresh : NDArray();
  }

  GraphContext context_;
  std::shared_ptr<const std::vector<uint32_t>> positions_;  ///< of the manifest's inputs among the arguments
  std::vector<NDArray> outputs_;                            ///< null where the plan doesn't let them be replaced
  std::vector<NDArray> spare_;                              ///< those before them
  std::vector<bool> is_bound_;                              ///< to memory of the user's: not replaced
  bool tried_ = false;
};

class GraphExecutable final : public Executable {
 public:
  GraphExecutable(std::shared_ptr<const GraphModel> model, std::string graph_json, const Manifest& manifest)
      : model_(std::move(model)), graph_json_(std::move(graph_json)) {
    auto positions = std::make_shared<std::vector<uint32_t>>();
    for (const TensorInfo& input : manifest.inputs) {
      int index = model_->InputIndex(input.name);
      if (index < 0) throw ModelFormatError(StrCat("input \"", input.name, "\" of the manifest isn't in the graph"));
      const GraphSpec::Entry& entry = model_->InputEntry(static_cast<size_t>(index));
      CheckAgrees(input, entry, "input");
      positions->push_back(static_cast<uint32_t>(index));
    }
    if (positions->size() != model_->input_positions().size()) {
      throw ModelFormatError(
          StrCat("the graph has ", model_->input_positions().size(), " inputs, the manifest ", positions->size()));
    }
    if (manifest.outputs.size() != model_->num_outputs()) {
      throw ModelFormatError(
          StrCat("the graph has ", model_->num_outputs(), " outputs, the manifest ", manifest.outputs.size()));
    }
    for (size_t i = 0; i < manifest.outputs.size(); ++i) {
      CheckAgrees(manifest.outputs[i], model_->OutputEntry(i), "output");
    }
    positions_ = std::move(positions);
  }

  std::unique_ptr<ExecutionContext> CreateContext() const override {
    return std::make_unique<GraphExecution>(model_, positions_);
  }
  MemoryReport Memory() const override { return model_->Memory(); }
  const std::string& graph_json() const override { return graph_json_; }

 private:
  static void CheckAgrees(const TensorInfo& info, const GraphSpec::Entry& entry, const char* what) {
    if (info.dtype == entry.dtype && info.shape == entry.shape) return;
    throw ModelFormatError(StrCat(what, " \"", info.name, "\" is ", info.str(), " in the manifest but ", entry.dtype,
                                  " ", ShapeString(entry.shape), " in the graph"));
  }

  std::shared_ptr<const GraphModel> model_;
  std::string graph_json_;
  std::shared_ptr<const std::vector<uint32_t>> positions_;
};

/// Types that the graph or the user gives: every device that there is, the CPU first.
std::vector<Device> AllDevices() {
  std::vector<Device> devices{Cpu()};
  for (int type : DeviceAPI::Registered()) {
    if (type != kDLCPU) devices.push_back({static_cast<DLDeviceType>(type), 0});
  }
  return devices;
}

std::shared_ptr<const Executable> MakeExecutable(GraphSpec spec, std::string graph_json, const ParamList& params,
                                                 const Module& library, const Manifest& manifest,
                                                 std::vector<Device> devices) {
  if (devices.empty()) devices = AllDevices();
  auto graph = std::make_shared<GraphModel>(std::move(spec), library, std::move(devices), params);
  return std::make_shared<GraphExecutable>(std::move(graph), std::move(graph_json), manifest);
}

}  // namespace

std::shared_ptr<const Executable> LoadGraphExecutable(const Module& library, const Module& root,
                                                      const Manifest& manifest) {
  const auto* node = static_cast<const LibraryModuleNode*>(library.get());
  std::shared_ptr<void> owner(nullptr, [keep = library](void*) {});
  ParamList params = node->blob()->Params(owner);
  const std::string_view json = node->blob()->Require("graph");
  try {
    const auto plan = node->blob()->Section("plan");
    GraphSpec spec = plan ? GraphSpec::FromBinary(*plan, "plan") : GraphSpec::FromJson(json);
    return MakeExecutable(std::move(spec), std::string(json), params, root, manifest, {});
  } catch (const ModelFormatError& error) {
    throw ModelFormatError(StrCat(node->path(), ": ", error.what()));
  }
}

Model Model::FromGraph(const std::string& graph_json, const ParamList& params, const Module& library,
                       const Manifest& manifest, std::vector<Device> devices) {
  return FromExecutable(
      MakeExecutable(GraphSpec::FromJson(graph_json), graph_json, params, library, manifest, std::move(devices)),
      manifest, library);
}

}  // namespace treadle::runtime
