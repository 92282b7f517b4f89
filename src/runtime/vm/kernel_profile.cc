// SPDX-License-Identifier: Apache-2.0
#include "runtime/vm/kernel_profile.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>

#include "treadle/base/int_math.h"
#include "treadle/base/text.h"

namespace treadle::runtime::vm {
namespace {

constexpr size_t kMemory = ~size_t{0}, kCopy = kMemory - 1;

bool OnCpu(const DLTensor& tensor) { return tensor.device.device_type == kDLCPU; }
uintptr_t AddressOf(const DLTensor& tensor) {
  return OnCpu(tensor) ? reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset : 0;
}

}  // namespace

/// Which calls wrote what is in memory: lists of calls by the ranges of addresses that they wrote last.
class KernelProfile::Memory {
 public:
  void Write(uintptr_t begin, uintptr_t end, std::vector<int> writers) {
    if (begin == 0 || begin >= end) return;
    Split(begin);
    Split(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    if (!writers.empty()) ranges_[begin] = {end, std::move(writers)};
  }
  void AddWriters(uintptr_t begin, uintptr_t end, std::vector<int>* writers) const {
    if (begin == 0) return;
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin()) --it;
    for (; it != ranges_.end() && it->first < end; ++it) {
      if (it->second.end <= begin) continue;
      for (int writer : it->second.writers) {
        if (std::find(writers->begin(), writers->end(), writer) == writers->end()) writers->push_back(writer);
      }
    }
  }

 private:
  struct Range {
    uintptr_t end;
    std::vector<int> writers;
  };
  /// No range spans `at`.
  void Split(uintptr_t at) {
    auto it = ranges_.lower_bound(at);
    if (it == ranges_.begin()) return;
    --it;
    if (it->second.end <= at) return;
    ranges_[at] = it->second;
    it->second.end = at;
  }
  std::map<uintptr_t, Range> ranges_;
};

void KernelProfile::AddTensor(const DLTensor& tensor) {
  tensors_.push_back({tensor.dtype, tensor.ndim, dims_.size(), AddressOf(tensor)});
  dims_.insert(dims_.end(), tensor.shape, tensor.shape + tensor.ndim);
}

void KernelProfile::AddMemory(const DLTensor& tensor) {
  events_.push_back({kMemory, -1, tensors_.size(), nullptr, {}, {}});
  AddTensor(tensor);
}

void KernelProfile::AddCopy(const DLTensor& a, const DLTensor& b, const DLTensor& to) {
  events_.push_back({kCopy, -1, tensors_.size(), nullptr, {}, {}});
  for (const DLTensor* tensor : {&a, &b, &to}) AddTensor(*tensor);
}

std::string KernelProfile::LastShapes(const Program& program) const {
  const auto last =
      std::find_if(events_.rbegin(), events_.rend(), [](const Event& event) { return event.kernel < kCopy; });
  return Shapes(program, *last);
}

std::string KernelProfile::Shapes(const Program& program, const Event& call) const {
  const KernelDecl& decl = program.kernels[call.kernel];
  std::string text;
  for (uint32_t k = 0; k < decl.tensors; ++k) {
    const Tensor& tensor = tensors_[call.first_tensor + k];
    if (k == decl.tensors - decl.outputs) {
      text += " -> ";
    } else if (k != 0) {
      text += ", ";
    }
    text += StrCat(DataType(tensor.dtype), " ", ShapeString(dims_.data() + tensor.first_dim, tensor.ndim));
  }
  return text;
}

double KernelProfile::Macs(const KernelDecl& decl, const Event& call) const {
  double sum = 0;
  for (const MacTerm& term : decl.macs) {
    double product = term.factor;
    for (const auto& [index, dim] : term.dims) {
      const Tensor& tensor = tensors_[call.first_tensor + index];
      if (dim < static_cast<uint32_t>(tensor.ndim)) product *= static_cast<double>(dims_[tensor.first_dim + dim]);
    }
    sum += product;
  }
  return sum;
}

uintptr_t KernelProfile::EndOf(const Tensor& tensor) const {
  uint64_t bits = uint64_t{tensor.dtype.bits} * tensor.dtype.lanes;
  for (int32_t d = 0; d < tensor.ndim; ++d) bits *= static_cast<uint64_t>(dims_[tensor.first_dim + d]);
  return tensor.data + CeilDiv(bits, 8);
}

std::vector<OpTiming> KernelProfile::Timings(const Program& program, const std::vector<NDArray>& inputs,
                                             const std::vector<NDArray>& outputs) const {
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const auto end_of = [](const NDArray& value) {
    return AddressOf(value->tensor) + static_cast<uintptr_t>(value.nbytes());
  };
  Memory memory;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) memory.Write(AddressOf(inputs[i]->tensor), end_of(inputs[i]), {-1 - static_cast<int>(i)});
  }
  std::vector<OpTiming> timings;
  std::unordered_map<const void*, int> sites;
  // Of the calls from one place, as in a loop, the last stands for all.
  const auto writers_of = [&](uint32_t begin, uint32_t end, size_t first) {
    std::vector<int> all, result;
    for (uint32_t k = begin; k < end; ++k) {
      const Tensor& tensor = tensors_[first + k];
      memory.AddWriters(tensor.data, EndOf(tensor), &all);
    }
    const auto site = [&](int writer) { return writer < 0 ? writer : timings[static_cast<size_t>(writer)].site; };
    std::sort(all.rbegin(), all.rend());
    for (int writer : all) {
      if (std::none_of(result.begin(), result.end(), [&](int other) { return site(other) == site(writer); }))
        result.push_back(writer);
    }
    return result;
  };
  const auto write = [&](size_t tensor, const std::vector<int>& writers) {
    memory.Write(tensors_[tensor].data, EndOf(tensors_[tensor]), writers);
  };
  for (const Event& event : events_) {
    if (event.kernel == kMemory) {
      write(event.first_tensor, {});
    } else if (event.kernel == kCopy) {
      write(event.first_tensor + 2, writers_of(0, 2, event.first_tensor));
    } else if (event.end != Clock::time_point()) {  // it didn't fail
      const KernelDecl& decl = program.kernels[event.kernel];
      OpTiming timing{decl.name, decl.name, seconds(event.start - start_), seconds(event.end - event.start),
                      Shapes(program, event)};
      if (event.origin >= 0) timing.origin = program.strings[static_cast<size_t>(event.origin)];
      timing.macs = Macs(decl, event);
      timing.macs_known = decl.macs_known;
      timing.mac_share = decl.mac_share;
      timing.site = sites.emplace(event.site, static_cast<int>(sites.size())).first->second;
      timing.sources = writers_of(0, decl.tensors - decl.outputs, event.first_tensor);
      timings.push_back(std::move(timing));
      for (uint32_t k = decl.tensors - decl.outputs; k < decl.tensors; ++k)
        write(event.first_tensor + k, {static_cast<int>(timings.size()) - 1});
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::vector<int> writers;
    if (outputs[i].defined()) memory.AddWriters(AddressOf(outputs[i]->tensor), end_of(outputs[i]), &writers);
    for (int writer : writers) {
      if (writer >= 0) timings[static_cast<size_t>(writer)].outputs.push_back(static_cast<int>(i));
    }
  }
  return timings;
}

}  // namespace treadle::runtime::vm
