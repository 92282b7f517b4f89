// SPDX-License-Identifier: Apache-2.0
// The part of the graph executor that each thread has for itself.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "runtime/json.h"
#include "treadle/base/error.h"
#include "treadle/base/half.h"
#include "treadle/runtime/graph_executor.h"
#include "treadle/runtime/last_error.h"
#include "treadle/runtime/run_limits.h"
#include "treadle/runtime/thread_pool.h"

namespace treadle::runtime {
namespace {

std::string Describe(DataType dtype, const int64_t* shape, int ndim) {
  return StrCat(dtype, " ", ShapeString(shape, ndim));
}
std::string Describe(const GraphSpec::Entry& entry) {
  return Describe(entry.dtype, entry.shape.data(), static_cast<int>(entry.shape.size()));
}

template <typename T, typename IsNan>
bool AnyNan(const NDArray& array, IsNan is_nan) {
  const T* values = array.Data<T>();
  for (int64_t i = 0, n = array.size(); i < n; ++i) {
    if (is_nan(values[i])) return true;
  }
  return false;
}

bool HasNan(const NDArray& array) {
  if (array.device().device_type != kDLCPU) return HasNan(array.Copy());
  DataType dtype = array.dtype();
  if (dtype == DataType::Float(32)) return AnyNan<float>(array, [](float v) { return std::isnan(v); });
  if (dtype == DataType::Float(64)) return AnyNan<double>(array, [](double v) { return std::isnan(v); });
  if (dtype == DataType::Float(16)) {
    return AnyNan<uint16_t>(array, [](uint16_t v) { return std::isnan(HalfToFloat(v)); });
  }
  if (dtype == DataType::BFloat()) {
    return AnyNan<uint16_t>(array, [](uint16_t v) { return std::isnan(BFloat16ToFloat(v)); });
  }
  return false;
}

/// Fills memory of this process with zeros. Whole pages of large buffers are given back instead, and are zeros when
/// they are first used: inputs that callers bring along take no memory then.
void Zero(char* data, size_t bytes) {
  constexpr size_t kLarge = 1 << 20;
  if (bytes >= kLarge) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t head = (page - reinterpret_cast<uintptr_t>(data) % page) % page;
    const size_t pages = (bytes - head) / page * page;
    if (madvise(data + head, pages, MADV_DONTNEED) == 0) {
      std::memset(data, 0, head);
      std::memset(data + head + pages, 0, bytes - head - pages);
      return;
    }
  }
  std::memset(data, 0, bytes);
}

}  // namespace

GraphContext::GraphContext(std::shared_ptr<const GraphModel> model) : model_(std::move(model)) {
  Allocate();
  BuildTensors();
  BuildArgs();
}

void GraphContext::SetThreads(int threads) {
  if (threads < 0 || threads > 4096) throw Error(StrCat("number of threads must be from 0 to 4096, got ", threads));
  threads_ = threads;
}

void GraphContext::Allocate() {
  const GraphSpec& spec = model_->spec_;
  // Tensors without elements may be all that an arena holds; they need an address too.
  bool in_arena = std::any_of(spec.entries.begin(), spec.entries.end(),
                              [](const GraphSpec::Entry& entry) { return entry.arena_offset >= 0; });
  if (in_arena) {
    arena_ = NDArray::Empty({std::max<int64_t>(spec.arena_bytes, 1)}, DataType::UInt(8), model_->arena_device_);
  }
  // The largest entry of each storage; parameters have theirs already.
  uint32_t ids = 0;
  for (const GraphSpec::Entry& entry : spec.entries) ids = std::max(ids, entry.storage_id + 1);
  std::vector<int64_t> bytes(ids, -1);
  std::vector<const GraphSpec::Entry*> largest(ids, nullptr);
  for (const GraphSpec::Entry& entry : spec.entries) {
    if (entry.arena_offset >= 0 || entry.bytes <= bytes[entry.storage_id]) continue;
    bytes[entry.storage_id] = entry.bytes;
    largest[entry.storage_id] = &entry;
  }
  std::vector<int64_t> others(ids, 0);  // entries of a storage that aren't parameters
  for (const GraphSpec::Entry& entry : spec.entries) ++others[entry.storage_id];
  for (size_t i = 0; i < model_->num_inputs(); ++i) {
    const uint32_t id = model_->InputEntry(i).storage_id;
    if (model_->params_[i].defined() && --others[id] == 0) largest[id] = nullptr;
  }
  storage_.resize(ids);
  for (uint32_t id = 0; id < ids; ++id) {
    if (largest[id] == nullptr) continue;
    storage_[id] = NDArray::Empty({bytes[id]}, DataType::UInt(8), model_->DeviceOf(*largest[id]));
  }
  // Inputs that nobody sets are zero rather than whatever was there.
  for (uint32_t i : model_->free_inputs_) {
    NDArray& input = storage_[model_->InputEntry(i).storage_id];
    if (input.device().device_type == kDLCPU)
      Zero(static_cast<char*>(input.data_ptr()), static_cast<size_t>(input.nbytes()));
  }
}

void GraphContext::BuildTensors() {
  const GraphSpec& spec = model_->spec_;
  tensors_.resize(model_->slot_entry_.size());
  for (size_t slot = 0; slot < tensors_.size(); ++slot) {
    const GraphSpec::Entry& entry = spec.entries[model_->slot_entry_[slot]];
    DLTensor& tensor = tensors_[slot];
    tensor = {};
    tensor.device = model_->DeviceOf(entry);
    tensor.dtype = entry.dtype;
    if (slot < spec.entries.size()) {
      tensor.ndim = static_cast<int32_t>(entry.shape.size());
      tensor.shape = const_cast<int64_t*>(entry.shape.data());
    } else {
      tensor.ndim = 1;
      tensor.shape = const_cast<int64_t*>(&model_->flat_sizes_[slot - spec.entries.size()]);
    }
    if (entry.arena_offset >= 0) {
      tensor.data = static_cast<char*>(arena_.data_ptr()) + entry.arena_offset;
    } else if (storage_[entry.storage_id].defined()) {
      tensor.data = storage_[entry.storage_id]->tensor.data;
    }
  }
  inputs_.resize(model_->num_inputs());
  input_is_own_.resize(inputs_.size(), true);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (model_->params_[i].defined()) {
      inputs_[i] = model_->params_[i];
      input_is_own_[i] = false;
      PointTo(model_->InputEntryId(i), inputs_[i]);
    } else {
      inputs_[i] = EntryValue(model_->InputEntryId(i));
    }
  }
  for (GraphSpec::Ref head : spec.heads) outputs_.push_back(EntryValue(spec.EntryId(head)));
}

void GraphContext::BuildArgs() {
  for (uint32_t slot : model_->arg_slots_) {
    TreadleValue value;
    value.v_handle = &tensors_[slot];
    values_.push_back(value);
    codes_.push_back(kTreadleDLTensor);
  }
}

NDArray GraphContext::EntryValue(uint32_t entry) const {
  const GraphSpec::Entry& e = model_->spec_.entries[entry];
  const NDArray& owner = e.arena_offset >= 0 ? arena_ : storage_[e.storage_id];
  std::shared_ptr<void> keep;
  if (owner.defined()) keep = owner->storage;
  // A parameter, or a view of one: it lies in the memory of the library.
  bool read_only = false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const NDArray& param = model_->params_[i];
    if (!param.defined() || model_->InputEntryId(i) != model_->alias_root_[entry]) continue;
    keep = param->storage;
    read_only = param.read_only();
  }
  return NDArray::View(tensors_[entry].data, e.shape, e.dtype, tensors_[entry].device, std::move(keep), read_only);
}

void GraphContext::PointTo(uint32_t entry, const NDArray& value) {
  uint32_t root = model_->alias_root_[entry];
  main_data_current_ = false;
  for (uint32_t slot : model_->slots_of_root_.at(root)) tensors_[slot].data = value.data_ptr();
  auto heads = model_->heads_of_root_.find(root);
  if (heads == model_->heads_of_root_.end() || outputs_.empty()) return;
  for (uint32_t head : heads->second) {
    const GraphSpec::Entry& e = model_->OutputEntry(head);
    outputs_[head] = NDArray::View(value.data_ptr(), e.shape, e.dtype, value.device(), value->storage);
  }
}

void GraphContext::CheckFits(const DLTensor& value, const GraphSpec::Entry& entry, const std::string& what) const {
  DataType dtype(value.dtype);
  if (dtype == DataType(kDLBool, 8)) dtype = DataType::Bool();
  bool same_shape = std::equal(value.shape, value.shape + value.ndim, entry.shape.begin(), entry.shape.end());
  if (same_shape && dtype == entry.dtype) return;
  std::string text =
      StrCat(what, ": expected ", Describe(entry), " but got ", Describe(dtype, value.shape, value.ndim));
  if (!same_shape) throw ShapeError(text);
  throw DTypeError(text);
}

std::string GraphContext::WhyNotInPlace(const NDArray& value, const GraphSpec::Entry& entry) const {
  Device device = model_->DeviceOf(entry);
  if (!SameDevice(value.device(), device)) {
    return StrCat("it is on ", DeviceName(value.device()), ", not on ", DeviceName(device));
  }
  if (!value.IsCompact()) return "it isn't contiguous";
  if (device.device_type != kDLCPU) return value->tensor.byte_offset == 0 ? "" : "it starts inside a buffer";
  // Kernels take arguments from anywhere: elements have to be aligned, vectors needn't.
  uintptr_t alignment = static_cast<uintptr_t>(std::clamp<int64_t>(ElementBytes(value.dtype()), 1, 8));
  if (reinterpret_cast<uintptr_t>(value.data_ptr()) % alignment != 0) {
    return StrCat("it isn't aligned to ", alignment, " bytes");
  }
  return "";
}

size_t GraphContext::RequireInput(const std::string& name) const {
  int index = model_->InputIndex(name);
  if (index >= 0) return static_cast<size_t>(index);
  std::string names;
  size_t shown = 0;
  for (uint32_t i : model_->input_positions()) {
    if (++shown > 16) {
      names += ", ...";
      break;
    }
    names += (names.empty() ? "" : ", ") + model_->InputName(i);
  }
  std::string parameter;
  for (size_t i = 0; i < model_->num_inputs() && parameter.empty(); ++i) {
    if (model_->ModelName(i) == name) parameter = StrCat(", which is the parameter \"", model_->InputName(i), "\"");
  }
  throw Error(StrCat("no input \"", name, "\"", parameter, "; the inputs are: ", names.empty() ? "none" : names));
}

void GraphContext::UseOwnInput(size_t index) {
  const GraphSpec::Entry& entry = model_->InputEntry(index);
  const NDArray& own = storage_[entry.storage_id];
  if (own.defined()) {
    inputs_[index] = NDArray::View(own->tensor.data, entry.shape, entry.dtype, own.device(), own->storage);
  } else {
    inputs_[index] = NDArray::Empty(entry.shape, entry.dtype, model_->DeviceOf(entry));
  }
  PointTo(model_->InputEntryId(index), inputs_[index]);
  input_is_own_[index] = true;
}

void GraphContext::SetInput(size_t index, const DLTensor& value) {
  const SoleUser::Use use(&user_);
  if (index >= inputs_.size()) throw Error(StrCat("no input ", index, "; there are ", inputs_.size()));
  CheckFits(value, model_->InputEntry(index), model_->InputText(index));
  if (!input_is_own_[index]) UseOwnInput(index);
  inputs_[index].CopyFrom(value);
}

void GraphContext::SetInput(const std::string& name, const NDArray& value) {
  SetInput(RequireInput(name), value.dl_tensor());
}

void GraphContext::SetInputZeroCopy(size_t index, const NDArray& value) {
  const SoleUser::Use use(&user_);
  if (index >= inputs_.size()) throw Error(StrCat("no input ", index, "; there are ", inputs_.size()));
  std::string what = model_->InputText(index);
  CheckFits(value.dl_tensor(), model_->InputEntry(index), what);
  std::string reason = WhyNotInPlace(value, model_->InputEntry(index));
  if (reason.empty() && !model_->input_rebindable_[index]) reason = "the plan uses its memory for other values too";
  if (!reason.empty()) throw Error(StrCat(what, " can't be used in place: ", reason));
  inputs_[index] = value;
  input_is_own_[index] = false;
  PointTo(model_->InputEntryId(index), value);
}

void GraphContext::BindInput(size_t index, const NDArray& value) {
  if (index < inputs_.size() && model_->input_rebindable_[index] &&
      WhyNotInPlace(value, model_->InputEntry(index)).empty()) {
    return SetInputZeroCopy(index, value);
  }
  SetInput(index, value.dl_tensor());
}

NDArray GraphContext::GetInput(size_t index) const {
  if (index >= inputs_.size()) throw Error(StrCat("no input ", index, "; there are ", inputs_.size()));
  return inputs_[index];
}

NDArray GraphContext::GetOutput(size_t index) const {
  if (index >= outputs_.size()) throw Error(StrCat("no output ", index, "; there are ", outputs_.size()));
  return outputs_[index];
}

void GraphContext::CopyOutput(size_t index, const DLTensor& to) const {
  const SoleUser::Use use(&user_);
  NDArray output = GetOutput(index);
  CheckFits(to, model_->OutputEntry(index), StrCat("output ", index));
  output.CopyTo(to);
}

bool GraphContext::BindOutput(size_t index, const NDArray& value) {
  const SoleUser::Use use(&user_);
  if (index >= outputs_.size()) throw Error(StrCat("no output ", index, "; there are ", outputs_.size()));
  CheckFits(value.dl_tensor(), model_->OutputEntry(index), StrCat("output ", index));
  if (!model_->output_rebindable_[index] || value.read_only()) return false;
  if (!WhyNotInPlace(value, model_->OutputEntry(index)).empty()) return false;
  PointTo(model_->spec_.EntryId(model_->spec_.heads[index]), value);
  outputs_[index] = value;
  return true;
}

void GraphContext::SetOutputZeroCopy(size_t index, const NDArray& value) {
  if (BindOutput(index, value)) return;
  std::string reason = WhyNotInPlace(value, model_->OutputEntry(index));
  if (value.read_only()) reason = "it is read-only";
  if (reason.empty()) reason = "the plan uses the output's memory for other values too";
  throw Error(StrCat("output ", index, " can't be written in place: ", reason));
}

void GraphContext::FailOp(const Op& op, int status, uint64_t errors) const {
  const GraphSpec::Node& node = model_->spec_.nodes[op.node];
  ThrowErrorOf(StrCat("node ", op.node, " (", node.name, ")"), status, errors);
}

void GraphContext::RunOp(const Op& op) {
  if (const RunLimitScope* limits = RunLimitScope::Current(); limits != nullptr) limits->Check();
  TreadleValue* values = values_.data() + op.arg_begin;
  int* codes = codes_.data() + op.arg_begin;
  if (op.function != nullptr) {
    TreadleValue ret;
    int ret_code = kTreadleNull;
    const uint64_t errors = LastErrorCount();
    const int status = op.function(values, codes, static_cast<int>(op.num_args), &ret, &ret_code, op.resource);
    if (status != 0) FailOp(op, status, errors);
    return;
  }
  if (op.is_copy) {
    CopyTensor(tensors_[model_->arg_slots_[op.arg_begin]], tensors_[model_->arg_slots_[op.arg_begin + 1]]);
    return;
  }
  RetValue ret;
  op.packed.CallPacked(Args(values, codes, static_cast<int>(op.num_args)), &ret);
}

void GraphContext::RunMain() {
  if (!main_data_current_) {
    main_data_.resize(model_->arg_slots_.size());
    for (size_t i = 0; i < main_data_.size(); ++i) main_data_[i] = tensors_[model_->arg_slots_[i]].data;
    main_data_current_ = true;
  }
  const uint64_t errors = LastErrorCount();
  const int failed = model_->main_(main_data_.data());
  if (failed == 0) return;
  const auto call = static_cast<size_t>(failed) - 1;
  TREADLE_ICHECK(call < model_->ops_.size()) << "call " << failed << " of a compiled graph failed; it has fewer";
  FailOp(model_->ops_[call], -1, errors);
}

void GraphContext::Run() {
  const SoleUser::Use use(&user_);
  RunScope scope(threads_);
  if (runs_ < 2 && ++runs_ == 2) model_->MoveParamsToHugePages();
  // Compiled code that calls all kernels in a row can't be ended between them.
  if (model_->has_main() && RunLimitScope::Current() == nullptr) return RunMain();
  size_t next = 0;
  if (MaxConcurrency() > 1) {
    for (const GraphModel::Stage& stage : model_->stages_) {
      for (; next < stage.begin; ++next) RunOp(model_->ops_[next]);
      RunStage(stage);
      next = stage.end;
    }
  }
  for (; next < model_->ops_.size(); ++next) RunOp(model_->ops_[next]);
}

void GraphContext::RunStage(const GraphModel::Stage& stage) {
  struct Work {
    GraphContext* context;
    const GraphModel::Stage* stage;
  } work{this, &stage};
  const auto run = [](int task, TreadleParallelGroupEnv* env, void* data) {
    const auto& [context, stage] = *static_cast<Work*>(data);
    for (auto b = static_cast<size_t>(task); b < stage->branches.size(); b += static_cast<size_t>(env->num_task)) {
      for (size_t op : stage->branches[b]) context->RunOp(context->model_->ops_[op]);
    }
    return 0;
  };
  if (ParallelLaunch(run, &work, static_cast<int>(stage.branches.size())) != 0) ThrowLastError();
}

std::string GraphContext::ShapesOf(const Op& op) const {
  std::string text;
  size_t inputs = model_->spec_.nodes[op.node].inputs.size();
  for (uint32_t i = 0; i < op.num_args; ++i) {
    const DLTensor& tensor = tensors_[model_->arg_slots_[op.arg_begin + i]];
    if (i == inputs) {
      text += " -> ";
    } else if (i != 0) {
      text += ", ";
    }
    text += Describe(DataType(tensor.dtype), tensor.shape, tensor.ndim);
  }
  return text;
}

void GraphContext::RefuseNan(const Op& op) const {
  const GraphSpec::Node& node = model_->spec_.nodes[op.node];
  for (uint32_t k = 0; k < node.num_outputs; ++k) {
    if (!HasNan(EntryValue(model_->spec_.EntryId(op.node, k)))) continue;
    throw VerifyError(
        StrCat("output ", k, " of node ", op.node, " (", node.name, ") has a NaN; arguments: ", ShapesOf(op)));
  }
}

std::vector<OpTiming> GraphContext::RunProfiled(bool stop_at_nan) {
  const SoleUser::Use use(&user_);
  using Clock = std::chrono::steady_clock;
  RunScope scope(threads_);
  std::vector<Device> others;  // their calls end after the host's functions return
  for (Device device : model_->devices_) {
    if (device.device_type != kDLCPU) others.push_back(device);
  }
  // Between two calls the clock is read and nothing else is done: texts, which take as long as a small kernel, come
  // after.
  struct Times {
    Clock::time_point start, end;
  };
  std::vector<Times> times(model_->ops_.size());
  const auto begin = Clock::now();
  auto last = begin;
  for (size_t i = 0; i < times.size(); ++i) {
    const Op& op = model_->ops_[i];
    times[i].start = last;
    RunOp(op);
    for (Device device : others) DeviceAPI::Get(device)->StreamSync(device, nullptr);
    times[i].end = last = Clock::now();
    if (!stop_at_nan) continue;
    RefuseNan(op);
    last = Clock::now();
  }
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  std::vector<OpTiming> timings;
  timings.reserve(times.size());
  for (size_t i = 0; i < times.size(); ++i) {
    const Op& op = model_->ops_[i];
    const GraphSpec::Node& node = model_->spec_.nodes[op.node];
    const auto attr = [&node](const char* key) {
      auto it = node.attrs.find(key);
      return it == node.attrs.end() ? std::string() : it->second;
    };
    timings.push_back({node.name, node.func_name, seconds(times[i].start - begin),
                       seconds(times[i].end - times[i].start), ShapesOf(op), attr("Compiler"),
                       ParseDouble(attr("macs")).value_or(0), attr("origin")});
    timings.back().mac_share = ParseDouble(attr("mac_share")).value_or(1);
  }
  return timings;
}

void GraphContext::RunVisiting(const std::function<void(uint32_t, uint32_t, const NDArray&)>& visit) {
  const SoleUser::Use use(&user_);
  RunScope scope(threads_);
  for (const Op& op : model_->ops_) {
    RunOp(op);
    for (uint32_t k = 0; k < model_->spec_.nodes[op.node].num_outputs; ++k) {
      visit(op.node, k, EntryValue(model_->spec_.EntryId(op.node, k)));
    }
  }
}

void GraphContext::RunNode(uint32_t node) {
  const SoleUser::Use use(&user_);
  if (node >= model_->spec_.nodes.size()) throw Error(StrCat("no node ", node));
  RunScope scope(threads_);
  for (const Op& op : model_->ops_) {
    if (op.node == node) RunOp(op);
  }
}

void GraphContext::LoadParams(const ParamList& params) {
  for (const auto& [name, value] : params) {
    int index = model_->InputIndex(name);
    if (index < 0) continue;
    BindInput(static_cast<size_t>(index), value);
  }
}

void GraphContext::ShareParams(const GraphContext& other, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    int from = other.model_->InputIndex(name), to = model_->InputIndex(name);
    if (from < 0 || to < 0) continue;
    SetInputZeroCopy(static_cast<size_t>(to), other.GetInput(static_cast<size_t>(from)));
  }
}

std::string ChromeTrace(const std::vector<OpTiming>& timings) {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  for (size_t i = 0; i < timings.size(); ++i) {
    const OpTiming& t = timings[i];
    out += StrCat(i != 0 ? ",\n" : "\n", "{\"name\":", JsonQuote(t.name),
                  ",\"cat\":\"op\",\"ph\":\"X\",\"pid\":1,\"tid\":1", ",\"ts\":", FixedText(t.start * 1e6, 6),
                  ",\"dur\":", FixedText(t.seconds * 1e6, 6), ",\"args\":{\"function\":", JsonQuote(t.func_name),
                  ",\"arguments\":", JsonQuote(t.shapes), "}}");
  }
  return out + "\n]}\n";
}

}  // namespace treadle::runtime
