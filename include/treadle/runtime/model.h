// SPDX-License-Identifier: Apache-2.0
// Compiled models: load, look at inputs and outputs, run.
//
//   Model model = Model::Load("resnet50.so");
//   std::vector<NDArray> outputs = model.Run({{"x", image}});
//
// A Model is immutable and may be used by any number of threads. Run takes an idle context or makes one; a thread that
// runs often may keep a context of its own (CreateContext).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "treadle/runtime/graph_executor.h"
#include "treadle/runtime/manifest.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/runtime/params.h"

namespace treadle::runtime {

using NamedTensors = std::map<std::string, NDArray>;

/// One thread's state of a model. What executors implement; inputs are checked before they get here.
class ExecutionContext {
 public:
  virtual ~ExecutionContext() = default;
  /// Takes the value of input `index` (of the manifest's list). It may be used in place until the next SetInput.
  virtual void SetInput(size_t index, const NDArray& value) = 0;
  /// As SetInput, but copies: the caller's memory isn't used afterwards.
  virtual void CopyInput(size_t index, const DLTensor& value);
  virtual void Run() = 0;
  /// Result `index`; overwritten by the next run unless `owned` was asked for.
  virtual NDArray GetOutput(size_t index, bool owned) = 0;
  /// Result `output` of each run goes into `value`, which is input `input` as well: a state that the model changes in
  /// place. False, and nothing done, where it doesn't compute the one from the other in that way.
  virtual bool BindState(size_t input, size_t output, const NDArray& value) {
    return (void)input, (void)output, (void)value, false;
  }
  /// Later runs write result `index` into `value` (null: into memory of their own again), which is what GetOutput gives
  /// then. False, and nothing done, where they can't.
  virtual bool BindOutput(size_t index, const NDArray& value) { return (void)index, !value.defined(); }
  virtual void SetThreads(int threads) = 0;
  /// Runs with a time for each call.
  virtual std::vector<OpTiming> RunProfiled(bool stop_at_nan) = 0;
  /// Lets go of input values that are used in place.
  virtual void ReleaseInputs() {}
  /// The graph executor's context, for those who look inside; null for other executors.
  virtual GraphContext* graph() { return nullptr; }
  SoleUser* user() { return &user_; }

 private:
  SoleUser user_;
};

/// A model as an executor holds it.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual std::unique_ptr<ExecutionContext> CreateContext() const = 0;
  virtual MemoryReport Memory() const = 0;
  /// Of the graph executor, where the model carries it; else empty.
  virtual const std::string& graph_json() const;
};

/// Makes an executable of a loaded library whose manifest names this executor.
using ExecutorLoader = std::function<std::shared_ptr<const Executable>(const Module& library, const Module& root,
                                                                       const Manifest& manifest)>;
/// Adds an executor besides "graph" and "vm", or replaces one.
void RegisterExecutor(const std::string& name, ExecutorLoader loader);

/// A context with the checks that users need. For one thread at a time: a RuntimeError says where two meet in it.
class ModelContext {
 public:
  /// Checks name, type and shape; copies or uses `value` in place, so that it mustn't change until Run returns.
  void SetInput(const std::string& name, const NDArray& value);
  void SetInput(size_t index, const NDArray& value);
  /// As SetInput, but always copies.
  void CopyInput(const std::string& name, const DLTensor& value);
  /// Makes `value` input `input` and output `output` of the runs to come, changed in place; what GetOutput gives is
  /// `value` then. False, and nothing done, where the model needs both at a time.
  bool BindState(const std::string& input, const std::string& output, const NDArray& value);
  /// Later runs write output `index` into `value`, which isn't memory of an input, without copying; null: into memory
  /// of their own again. Of dynamic shapes the second run of the same ones is the first without a copy, and a shape
  /// that isn't that of `value` is a ShapeError of Run. False, and nothing done, where that can't be: an output that is
  /// an input as well, another type, shape or alignment than the plan's.
  bool BindOutput(size_t index, const NDArray& value);
  /// Runs with the inputs set before; a missing one is an Error.
  void Run();
  /// Sets all inputs, runs, and returns the outputs, which are the caller's.
  std::vector<NDArray> Run(const NamedTensors& inputs);
  /// Result `index`: a tensor of its own, that the next run doesn't touch.
  NDArray GetOutput(size_t index);
  /// As GetOutput, but in the context's memory: overwritten by the next run.
  NDArray PeekOutput(size_t index);
  /// Threads that this context uses; 0: the calling thread's limit.
  void SetThreads(int threads);
  std::vector<OpTiming> RunProfiled(bool stop_at_nan = false);
  ExecutionContext& executor() { return *context_; }

 private:
  friend class Model;
  void CheckOutput(size_t index) const;
  std::shared_ptr<const struct ModelData> model_;
  std::unique_ptr<ExecutionContext> context_;
  std::vector<bool> is_set_;
};

class Model {
 public:
  Model() = default;
  /// Loads a compiled model. Throws ModelFormatError (not a model, truncated, corrupt, of another version) or
  /// TargetError (this processor can't run it).
  static Model Load(const std::string& path);
  /// A model of parts in memory. `library` holds the functions of the graph.
  static Model FromGraph(const std::string& graph_json, const ParamList& params, const Module& library,
                         const Manifest& manifest, std::vector<Device> devices = {});
  /// A model of another executor.
  static Model FromExecutable(std::shared_ptr<const Executable> executable, const Manifest& manifest,
                              const Module& library);

  bool defined() const { return data_ != nullptr; }
  const Manifest& manifest() const;
  const std::vector<TensorInfo>& inputs() const { return manifest().inputs; }
  const std::vector<TensorInfo>& outputs() const { return manifest().outputs; }
  /// The compiled functions and what they import.
  const Module& library() const;
  /// Graph JSON; empty for other executors and where the model carries none.
  const std::string& graph_json() const;
  MemoryReport Memory() const;

  ModelContext CreateContext() const;
  /// Runs in a context of the model's own; outputs are in the order of outputs().
  std::vector<NDArray> Run(const NamedTensors& inputs, int threads = 0) const;

 private:
  std::shared_ptr<const struct ModelData> data_;
};

}  // namespace treadle::runtime
