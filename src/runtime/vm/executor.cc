// SPDX-License-Identifier: Apache-2.0
// The virtual machine as an executor of models, and as a module.
#include <algorithm>
#include <cstdint>
#include <functional>

#include "runtime/executors.h"
#include "runtime/library_module.h"
#include "treadle/base/error.h"
#include "treadle/runtime/model.h"
#include "treadle/runtime/vm/machine.h"

namespace treadle::runtime::vm {
namespace {

class VmExecution final : public ExecutionContext {
 public:
  VmExecution(std::shared_ptr<const VmModel> model, size_t num_inputs,
              std::shared_ptr<const std::vector<TensorInfo>> outputs)
      : machine_(std::move(model)), inputs_(num_inputs), outputs_(outputs->size()), declared_(std::move(outputs)) {
    for (const NDArray& constant : machine_.model().constants()) constants_.push_back(constant.data_ptr());
    std::sort(constants_.begin(), constants_.end(), std::less<>());
  }

  void SetInput(size_t index, const NDArray& value) override {
    inputs_[index] = FitsKernels(value) ? value : value.Copy();
  }
  bool BindOutput(size_t index, const NDArray& value) override {
    if (value.defined() && (!FitsKernels(value) || value.read_only() || value.dtype() != (*declared_)[index].dtype)) {
      return false;
    }
    bound_.resize(outputs_.size());
    bound_[index] = value;
    machine_.BindResults(bound_);
    return true;
  }
  void SetThreads(int threads) override { machine_.SetThreads(threads); }
  void Run() override {
    for (NDArray& output : outputs_) output = NDArray();
    taken_.clear();
    for (const NDArray& input : inputs_) taken_.push_back(input.data_ptr());
    std::sort(taken_.begin(), taken_.end(), std::less<>());
    ObjectRef result = machine_.InvokeEntry(std::vector<ObjectRef>(inputs_.begin(), inputs_.end()));
    const auto* tuple = result.as<AdtValueNode>();
    if (tuple == nullptr && outputs_.size() == 1) {
      SetOutput(0, result);
    } else if (tuple == nullptr || tuple->fields.size() != outputs_.size()) {
      throw ModelFormatError(StrCat("the program doesn't give ", outputs_.size(), " results"));
    } else {
      for (size_t i = 0; i < outputs_.size(); ++i) SetOutput(i, tuple->fields[i]);
    }
    PutBound();
  }
  NDArray GetOutput(size_t index, bool owned) override {
    if (!outputs_[index].defined()) throw Error("there is no result: the model hasn't run");
    // A result may be an input or a constant; who owns it may write to it.
    return owned && shared_[index] ? outputs_[index].Copy() : outputs_[index];
  }
  std::vector<OpTiming> RunProfiled(bool stop_at_nan) override {
    machine_.StartProfile(stop_at_nan);
    try {
      Run();
    } catch (...) {
      machine_.TakeProfile();
      throw;
    }
    return machine_.TakeProfile(inputs_, outputs_);
  }
  void ReleaseInputs() override {
    for (NDArray& input : inputs_) input = NDArray();
    for (NDArray& output : outputs_) output = NDArray();
  }

 private:
  /// Kernels take tensors from anywhere on the CPU: elements have to be aligned, vectors needn't.
  static bool FitsKernels(const NDArray& value) {
    const auto alignment = static_cast<uintptr_t>(std::clamp<int64_t>(ElementBytes(value.dtype()), 1, 8));
    return value.IsCompact() && value->tensor.byte_offset == 0 && value.device().device_type == kDLCPU &&
           reinterpret_cast<uintptr_t>(value.data_ptr()) % alignment == 0;
  }

  /// Results go to where they are bound, those that the run didn't make there by a copy.
  void PutBound() {
    for (size_t i = 0; i < bound_.size(); ++i) {
      if (!bound_[i].defined()) continue;
      if (bound_[i].shape() != outputs_[i].shape()) {
        throw ShapeError(StrCat("output \"", (*declared_)[i].name, "\" is ", ShapeString(outputs_[i].shape()),
                                ", but it is bound to a tensor of ", ShapeString(bound_[i].shape())));
      }
      // A run that went another way than the one that was followed may have made another result there.
      for (size_t other = 0; other < outputs_.size(); ++other) {
        if (other != i && outputs_[other].data_ptr() == bound_[i].data_ptr()) outputs_[other] = outputs_[other].Copy();
      }
    }
    for (size_t i = 0; i < bound_.size(); ++i) {
      if (!bound_[i].defined()) continue;
      if (outputs_[i].data_ptr() != bound_[i].data_ptr()) bound_[i].CopyFrom(outputs_[i]);
      outputs_[i] = bound_[i];
      shared_[i] = false;
    }
  }

  void SetOutput(size_t index, const ObjectRef& value) {
    if (!value.as<NDArrayNode>()) throw ModelFormatError(StrCat("result ", index, " of the program isn't a tensor"));
    outputs_[index] = Downcast<NDArray>(value);
    // A model's results are on the CPU, wherever it runs.
    if (outputs_[index].device().device_type != kDLCPU) outputs_[index] = outputs_[index].Copy();
    CheckDeclared(index);
    shared_.resize(outputs_.size());
    shared_[index] = outputs_[index].read_only();
    const void* data = outputs_[index].data_ptr();
    const auto at = std::lower_bound(taken_.begin(), taken_.end(), data, std::less<>());
    const bool taken = at != taken_.end() && *at == data;
    if (taken || std::binary_search(constants_.begin(), constants_.end(), data, std::less<>())) shared_[index] = true;
    if (!taken) taken_.insert(at, data);
  }

  /// What the compiler took a result to be, it is: types that were derived wrongly end here, not in a caller's hands.
  void CheckDeclared(size_t index) const {
    const TensorInfo& declared = (*declared_)[index];
    const std::vector<int64_t>& shape = outputs_[index].shape();
    bool fits = shape.size() == declared.shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) fits = declared.shape[d] < 0 || declared.shape[d] == shape[d];
    if (fits) return;
    throw InternalError(StrCat("internal error: result \"", declared.name, "\" has the shape ", ShapeString(shape),
                               ", declared ", declared.str()));
  }

  VirtualMachine machine_;
  std::vector<NDArray> inputs_, outputs_;
  std::vector<NDArray> bound_;  ///< where results are wanted; empty, or null tensors: anywhere
  std::shared_ptr<const std::vector<TensorInfo>> declared_;
  std::vector<bool> shared_;
  // Sorted: decoders have hundreds of inputs, results and constants.
  std::vector<const void*> constants_, taken_;  ///< places of constants; of inputs and of results so far
};

class VmExecutable final : public Executable {
 public:
  VmExecutable(std::shared_ptr<const VmModel> model, const Manifest& manifest)
      : model_(std::move(model)),
        num_inputs_(manifest.inputs.size()),
        outputs_(std::make_shared<const std::vector<TensorInfo>>(manifest.outputs)) {
    const Program& program = model_->program();
    if (program.functions[program.entry].params.size() != num_inputs_) {
      throw ModelFormatError(StrCat("the program takes ", program.functions[program.entry].params.size(),
                                    " inputs, the manifest lists ", num_inputs_));
    }
  }
  std::unique_ptr<ExecutionContext> CreateContext() const override {
    return std::make_unique<VmExecution>(model_, num_inputs_, outputs_);
  }
  MemoryReport Memory() const override {
    MemoryReport report;
    for (const NDArray& constant : model_->constants()) report.params += constant.nbytes();
    return report;
  }

 private:
  std::shared_ptr<const VmModel> model_;
  size_t num_inputs_;
  std::shared_ptr<const std::vector<TensorInfo>> outputs_;
};

std::shared_ptr<const VmModel> ModelOfLibrary(const Module& library, const Module& root) {
  const auto* node = static_cast<const LibraryModuleNode*>(library.get());
  if (node->blob() == nullptr) throw ModelFormatError(StrCat(node->path(), ": no program"));
  std::shared_ptr<void> owner(nullptr, [keep = library](void*) {});
  std::vector<NDArray> constants;
  for (const auto& [name, value] : node->blob()->Params(owner)) constants.push_back(value);
  Program program = Program::Load(node->blob()->Require("vm"), static_cast<uint32_t>(constants.size()),
                                  node->path() + ": vm program");
  return std::make_shared<VmModel>(std::move(program), root, std::move(constants));
}

}  // namespace

std::shared_ptr<const VmModel> LoadVmModel(const std::string& path) {
  LoadedLibrary loaded = LoadLibraryFile(path);
  return ModelOfLibrary(loaded.library, loaded.root);
}

std::shared_ptr<const Executable> MakeVmExecutable(std::shared_ptr<const VmModel> model, const Manifest& manifest) {
  return std::make_shared<VmExecutable>(std::move(model), manifest);
}

}  // namespace treadle::runtime::vm

namespace treadle::runtime {

std::shared_ptr<const Executable> LoadVmExecutable(const Module& library, const Module& root,
                                                   const Manifest& manifest) {
  return vm::MakeVmExecutable(vm::ModelOfLibrary(library, root), manifest);
}

}  // namespace treadle::runtime
