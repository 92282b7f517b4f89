// SPDX-License-Identifier: Apache-2.0
// Compiles fused functions to kernels; structurally equal functions are compiled once.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "treadle/ir/structural.h"
#include "treadle/ir/target.h"
#include "treadle/relay/expr.h"
#include "treadle/tir/function.h"

namespace treadle::driver {

/// A fused function on its way to machine code.
struct Kernel {
  std::string symbol;
  relay::Function source;
  tir::PrimFunc scheduled;  ///< null until lowered
  tir::PrimFunc lowered;
  int uses = 0;  ///< calls in the graph
};

class CompileEngine {
 public:
  explicit CompileEngine(Target target, std::string module_name = "default");

  /// Symbol of the kernel for `func`: a new one unless an equal function was declared before.
  const std::string& Declare(const relay::Function& func);
  /// Tensor expressions, schedule and lowering of every declared kernel, on `threads` threads. An error names the
  /// operators of the kernel and the places they come from.
  void LowerAll(int threads);

  const std::vector<Kernel>& kernels() const { return kernels_; }

 private:
  Target target_;
  std::string prefix_;
  std::vector<Kernel> kernels_;
  std::unordered_map<relay::Function, size_t, StructuralHashFn, StructuralEqualFn> index_;
  std::unordered_map<std::string, int> names_;
};

/// Calls `work(i)` for i in [0, count) on `threads` threads in the pass context of the caller; the exception of the
/// smallest i that failed is rethrown.
void ParallelFor(size_t count, int threads, const std::function<void(size_t)>& work);

}  // namespace treadle::driver
