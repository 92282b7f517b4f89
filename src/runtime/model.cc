// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/model.h"

#include <mutex>

#include "runtime/builtins.h"
#include "runtime/executors.h"
#include "runtime/library_module.h"
#include "treadle/base/error.h"

namespace treadle::runtime {

/// What the copies of a Model share.
struct ModelData {
  Manifest manifest;
  Module library;
  std::shared_ptr<const Executable> executable;

  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<ExecutionContext>> idle;  ///< contexts of Model::Run

  std::unique_ptr<ExecutionContext> TakeContext() const {
    std::lock_guard<std::mutex> lock(mutex);
    if (idle.empty()) return nullptr;
    std::unique_ptr<ExecutionContext> context = std::move(idle.back());
    idle.pop_back();
    return context;
  }
  void Release(std::unique_ptr<ExecutionContext> context) const {
    context->ReleaseInputs();
    std::lock_guard<std::mutex> lock(mutex);
    idle.push_back(std::move(context));
  }
};

namespace {

struct ExecutorTable {
  std::mutex mutex;
  std::map<std::string, ExecutorLoader> loaders;
  static ExecutorTable& Global() {
    static auto* table = [] {
      auto* made = new ExecutorTable();
      made->loaders["graph"] = LoadGraphExecutable;
      made->loaders["vm"] = LoadVmExecutable;
      return made;
    }();
    return *table;
  }
};

void CheckInput(const TensorInfo& info, const DLTensor& value) {
  bool fits = value.ndim == static_cast<int>(info.shape.size());
  for (size_t d = 0; fits && d < info.shape.size(); ++d) fits = info.shape[d] < 0 || info.shape[d] == value.shape[d];
  DataType dtype(value.dtype);
  if (dtype == DataType(kDLBool, 8)) dtype = DataType::Bool();
  if (fits && dtype == info.dtype) return;
  std::string text = StrCat("input \"", info.name, "\": expected ", info.str(), " but got ", dtype, " ",
                            ShapeString(value.shape, value.ndim));
  if (!fits) throw ShapeError(text);
  throw DTypeError(text);
}

void CheckInput(const TensorInfo& info, const NDArray& value) {
  if (!value.defined()) throw Error(StrCat("input \"", info.name, "\": the tensor is null"));
  CheckInput(info, value.dl_tensor());
}

std::string InputNames(const Manifest& manifest) {
  std::string names;
  for (const TensorInfo& input : manifest.inputs) names += (names.empty() ? "" : ", ") + input.name;
  return names.empty() ? "none" : names;
}

size_t InputPosition(const Manifest& manifest, const std::string& name) {
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    if (manifest.inputs[i].name == name) return i;
  }
  throw Error(StrCat("no input \"", name, "\"; the inputs are: ", InputNames(manifest)));
}

/// Checks and sets every input of a run.
void SetAllInputs(const Manifest& manifest, const NamedTensors& inputs, ExecutionContext* context) {
  const TensorInfo* missing = nullptr;
  size_t known = 0;
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    const auto it = inputs.find(manifest.inputs[i].name);
    if (it == inputs.end()) {
      if (missing == nullptr) missing = &manifest.inputs[i];
      continue;
    }
    CheckInput(manifest.inputs[i], it->second);
    context->SetInput(i, it->second);
    ++known;
  }
  if (known != inputs.size()) {
    for (const auto& input : inputs) InputPosition(manifest, input.first);  // refuses the unknown one
  }
  if (missing != nullptr) {
    throw Error(StrCat("input \"", missing->name, "\" is missing: expected ", missing->str()));
  }
}

std::vector<NDArray> OwnedOutputs(const Manifest& manifest, ExecutionContext* context) {
  std::vector<NDArray> outputs;
  for (size_t i = 0; i < manifest.outputs.size(); ++i) outputs.push_back(context->GetOutput(i, true));
  return outputs;
}

}  // namespace

const std::string& Executable::graph_json() const {
  static const std::string none;
  return none;
}

void ExecutionContext::CopyInput(size_t index, const DLTensor& value) {
  DataType dtype(value.dtype);
  if (dtype == DataType(kDLBool, 8)) dtype = DataType::Bool();
  NDArray copy = NDArray::Empty(std::vector<int64_t>(value.shape, value.shape + value.ndim), dtype);
  copy.CopyFrom(value);
  SetInput(index, copy);
}

void RegisterExecutor(const std::string& name, ExecutorLoader loader) {
  ExecutorTable& table = ExecutorTable::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  table.loaders[name] = std::move(loader);
}

void ModelContext::SetInput(const std::string& name, const NDArray& value) {
  SetInput(InputPosition(model_->manifest, name), value);
}

void ModelContext::SetInput(size_t index, const NDArray& value) {
  const SoleUser::Use use(context_->user());
  const auto& inputs = model_->manifest.inputs;
  if (index >= inputs.size()) throw Error(StrCat("no input ", index, "; the model has ", inputs.size()));
  CheckInput(inputs[index], value);
  context_->SetInput(index, value);
  is_set_[index] = true;
}

void ModelContext::CopyInput(const std::string& name, const DLTensor& value) {
  const SoleUser::Use use(context_->user());
  size_t index = InputPosition(model_->manifest, name);
  CheckInput(model_->manifest.inputs[index], value);
  context_->CopyInput(index, value);
  is_set_[index] = true;
}

bool ModelContext::BindState(const std::string& input, const std::string& output, const NDArray& value) {
  const SoleUser::Use use(context_->user());
  const Manifest& manifest = model_->manifest;
  const size_t from = InputPosition(manifest, input);
  size_t to = 0;
  while (to < manifest.outputs.size() && manifest.outputs[to].name != output) ++to;
  if (to == manifest.outputs.size()) throw Error(StrCat("no output \"", output, "\""));
  CheckInput(manifest.inputs[from], value);
  if (!context_->BindState(from, to, value)) return false;
  is_set_[from] = true;
  return true;
}

bool ModelContext::BindOutput(size_t index, const NDArray& value) {
  const SoleUser::Use use(context_->user());
  CheckOutput(index);
  return context_->BindOutput(index, value);
}

void ModelContext::Run() {
  const SoleUser::Use use(context_->user());
  for (size_t i = 0; i < is_set_.size(); ++i) {
    if (is_set_[i]) continue;
    const TensorInfo& info = model_->manifest.inputs[i];
    throw Error(StrCat("input \"", info.name, "\" is missing: expected ", info.str()));
  }
  context_->Run();
}

std::vector<NDArray> ModelContext::Run(const NamedTensors& inputs) {
  const SoleUser::Use use(context_->user());
  SetAllInputs(model_->manifest, inputs, context_.get());
  is_set_.assign(is_set_.size(), true);
  context_->Run();
  return OwnedOutputs(model_->manifest, context_.get());
}

void ModelContext::CheckOutput(size_t index) const {
  size_t count = model_->manifest.outputs.size();
  if (index >= count) throw Error(StrCat("no output ", index, "; the model has ", count));
}

NDArray ModelContext::GetOutput(size_t index) {
  const SoleUser::Use use(context_->user());
  CheckOutput(index);
  return context_->GetOutput(index, true);
}

NDArray ModelContext::PeekOutput(size_t index) {
  const SoleUser::Use use(context_->user());
  CheckOutput(index);
  return context_->GetOutput(index, false);
}

void ModelContext::SetThreads(int threads) {
  const SoleUser::Use use(context_->user());
  context_->SetThreads(threads);
}

std::vector<OpTiming> ModelContext::RunProfiled(bool stop_at_nan) {
  const SoleUser::Use use(context_->user());
  return context_->RunProfiled(stop_at_nan);
}

Model Model::Load(const std::string& path) {
  LoadedLibrary loaded = LoadLibraryFile(path, /*is_model=*/true);
  const auto* library = static_cast<const LibraryModuleNode*>(loaded.library.get());
  if (library->manifest() == nullptr) throw ModelFormatError(StrCat(path, ": a library, but not a compiled model"));
  const Manifest& manifest = *library->manifest();
  if (manifest.executor == "none") {
    throw ModelFormatError(StrCat(path, ": a library of kernels without a graph; load it with load_module"));
  }
  ExecutorLoader loader;
  {
    ExecutorTable& table = ExecutorTable::Global();
    std::lock_guard<std::mutex> lock(table.mutex);
    auto it = table.loaders.find(manifest.executor);
    if (it != table.loaders.end()) loader = it->second;
  }
  if (!loader) throw ModelFormatError(StrCat(path, ": this runtime has no executor \"", manifest.executor, "\""));
  return FromExecutable(loader(loaded.library, loaded.root, manifest), manifest, loaded.root);
}

Model Model::FromExecutable(std::shared_ptr<const Executable> executable, const Manifest& manifest,
                            const Module& library) {
  auto data = std::make_shared<ModelData>();
  data->manifest = manifest;
  data->library = library;
  data->executable = std::move(executable);
  Model model;
  model.data_ = std::move(data);
  return model;
}

const Manifest& Model::manifest() const { return data_->manifest; }
const Module& Model::library() const { return data_->library; }
const std::string& Model::graph_json() const { return data_->executable->graph_json(); }
MemoryReport Model::Memory() const { return data_->executable->Memory(); }

ModelContext Model::CreateContext() const {
  ModelContext context;
  context.model_ = data_;
  context.context_ = data_->executable->CreateContext();
  context.is_set_.assign(inputs().size(), false);
  return context;
}

std::vector<NDArray> Model::Run(const NamedTensors& inputs, int threads) const {
  std::unique_ptr<ExecutionContext> context = data_->TakeContext();
  if (context == nullptr) context = data_->executable->CreateContext();
  context->SetThreads(threads);
  std::vector<NDArray> outputs;
  try {
    SetAllInputs(manifest(), inputs, context.get());
    context->Run();
    outputs = OwnedOutputs(manifest(), context.get());
  } catch (...) {
    data_->Release(std::move(context));
    throw;
  }
  data_->Release(std::move(context));
  return outputs;
}

namespace {

/// A model file as a module: what its graph is, a factory of graph executors; else its root.
Module LoadModelModule(const std::string& path) {
  LoadedLibrary loaded = LoadLibraryFile(path);
  const auto* library = static_cast<const LibraryModuleNode*>(loaded.library.get());
  if (library->blob() == nullptr || !library->blob()->Section("graph")) return loaded.root;
  std::shared_ptr<void> owner(nullptr, [keep = loaded.library](void*) {});
  return MakeGraphFactoryModule(std::string(*library->blob()->Section("graph")), library->blob()->Params(owner),
                                library->manifest() != nullptr ? library->manifest()->module_name : "default",
                                loaded.root);
}

}  // namespace

void AddLibraryFunctions(const AddBuiltin& add) {
  add("runtime.module.loadfile_so",
      PackedFunc::FromTyped([](std::string path, std::string) { return LoadModelModule(path); }));
}

}  // namespace treadle::runtime
