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
/// of them afterwards.
class KernelProfile {
 public:
  using Clock = std::chrono::steady_clock;

  explicit KernelProfile(bool stop_at_nan) : stop_at_nan_(stop_at_nan) {}
  bool stop_at_nan() const { return stop_at_nan_; }

  /// A call of `kernel` begins whose operators of the model are the string `origin` (negative: not known).
  void Begin(size_t kernel, int32_t origin) { calls_.push_back({kernel, origin, tensors_.size(), Clock::now(), {}}); }
  void End() { calls_.back().end = Clock::now(); }
  /// An argument of the last call, in their order.
  void AddTensor(const DLTensor& tensor);
  /// "float32 (1, 3) -> float32 (1,)": the arguments of the last call.
  std::string LastShapes(const Program& program) const { return Shapes(program, calls_.size() - 1); }
  std::vector<OpTiming> Timings(const Program& program) const;

 private:
  struct Call {
    size_t kernel;
    int32_t origin;
    size_t first_tensor;
    Clock::time_point start, end;
  };
  struct Tensor {
    DLDataType dtype;
    int32_t ndim;
    size_t first_dim;
  };
  std::string Shapes(const Program& program, size_t call) const;

  bool stop_at_nan_;
  Clock::time_point start_ = Clock::now();
  std::vector<Call> calls_;
  std::vector<Tensor> tensors_;
  std::vector<int64_t> dims_;
};

}  // namespace treadle::runtime::vm
