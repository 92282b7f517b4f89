// SPDX-License-Identifier: Apache-2.0
// What a profiled run of a program notes of its kernels.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "treadle/runtime/graph_executor.h"
#include "treadle/runtime/vm/program.h"

namespace treadle::runtime::vm {

/// While the program runs, numbers are appended and nothing else; texts, which take as long as a small kernel, are made
/// of them afterwards. Where memory is noted that isn't a kernel's, it is so that later readers of it aren't taken for
/// readers of what was there before.
class KernelProfile {
 public:
  using Clock = std::chrono::steady_clock;

  explicit KernelProfile(bool stop_at_nan) : stop_at_nan_(stop_at_nan) {}
  bool stop_at_nan() const { return stop_at_nan_; }

  /// The instruction `site`, a call of `kernel`, begins; its operators of the model are the string `origin` (negative:
  /// not known).
  void Begin(size_t kernel, int32_t origin, const void* site) {
    events_.push_back({kernel, origin, tensors_.size(), site, Clock::now(), {}});
  }
  void End() { events_.back().end = Clock::now(); }
  /// An argument of the last call, in their order.
  void AddTensor(const DLTensor& tensor);
  /// Memory that nothing has been written to yet.
  void AddMemory(const DLTensor& tensor);
  /// `to` was copied from `a` and `b`.
  void AddCopy(const DLTensor& a, const DLTensor& b, const DLTensor& to);
  /// "float32 (1, 3) -> float32 (1,)": the arguments of the last call.
  std::string LastShapes(const Program& program) const;
  std::vector<OpTiming> Timings(const Program& program, const std::vector<NDArray>& inputs,
                                const std::vector<NDArray>& outputs) const;

 private:
  struct Event {
    size_t kernel;
    int32_t origin;
    size_t first_tensor;
    const void* site;
    Clock::time_point start, end;
  };
  struct Tensor {
    DLDataType dtype;
    int32_t ndim;
    size_t first_dim;
    uintptr_t data;  ///< 0: not on the CPU
  };
  class Memory;
  std::string Shapes(const Program& program, const Event& call) const;
  double Macs(const KernelDecl& decl, const Event& call) const;
  uintptr_t EndOf(const Tensor& tensor) const;

  bool stop_at_nan_;
  Clock::time_point start_ = Clock::now();
  std::vector<Event> events_;
  std::vector<Tensor> tensors_;
  std::vector<int64_t> dims_;
};

}  // namespace treadle::runtime::vm
