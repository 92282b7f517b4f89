// SPDX-License-Identifier: Apache-2.0
#include "runtime/vm/kernel_profile.h"

#include "treadle/base/text.h"

namespace treadle::runtime::vm {

void KernelProfile::AddTensor(const DLTensor& tensor) {
  tensors_.push_back({tensor.dtype, tensor.ndim, dims_.size()});
  dims_.insert(dims_.end(), tensor.shape, tensor.shape + tensor.ndim);
}

std::string KernelProfile::Shapes(const Program& program, size_t call) const {
  const KernelDecl& decl = program.kernels[calls_[call].kernel];
  std::string text;
  for (uint32_t k = 0; k < decl.tensors; ++k) {
    const Tensor& tensor = tensors_[calls_[call].first_tensor + k];
    if (k == decl.tensors - decl.outputs) {
      text += " -> ";
    } else if (k != 0) {
      text += ", ";
    }
    text += StrCat(DataType(tensor.dtype), " ", ShapeString(dims_.data() + tensor.first_dim, tensor.ndim));
  }
  return text;
}

std::vector<OpTiming> KernelProfile::Timings(const Program& program) const {
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  std::vector<OpTiming> timings;
  timings.reserve(calls_.size());
  for (size_t i = 0; i < calls_.size(); ++i) {
    const Call& call = calls_[i];
    if (call.end == Clock::time_point()) continue;  // it failed
    const std::string& name = program.kernels[call.kernel].name;
    OpTiming timing{name, name, seconds(call.start - start_), seconds(call.end - call.start), Shapes(program, i)};
    if (call.origin >= 0) timing.origin = program.strings[static_cast<size_t>(call.origin)];
    timings.push_back(std::move(timing));
  }
  return timings;
}

}  // namespace treadle::runtime::vm
