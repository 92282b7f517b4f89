// SPDX-License-Identifier: Apache-2.0
// Compiles fused functions to kernels; structurally equal functions for equal targets are compiled once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "treadle/driver/progress.h"
#include "treadle/ir/structural.h"
#include "treadle/ir/target.h"
#include "treadle/relay/expr.h"
#include "treadle/targets/target_spec.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/function.h"

namespace treadle::driver {

/// A registered function of this name replaces the built-in schedules and lowering. It gets the schedule
/// (te.Schedule), the tensors that are parameters, the kernel's name and the fused function, and returns a tir.PrimFunc
/// or an IRModule with one.
inline constexpr const char* kLowerHook = "relay.backend.lower";
/// Name of the function (outputs, args, symbol, target) -> PrimFunc, IRModule or null that schedules kernels whose
/// implementation brings a schedule (relay.op.OpStrategy).
inline constexpr const char* kScheduleHook = "relay.backend.schedule_implementation";

/// What makes two kernels one: the function's structure and the target's text.
struct KernelKey {
  relay::Function source;
  std::string target;
  uint64_t hash;  ///< never 0
  KernelKey(relay::Function source, const Target& target);
  bool operator==(const KernelKey& other) const;
};
struct KernelKeyHash {
  size_t operator()(const KernelKey& key) const { return static_cast<size_t>(key.hash); }
};

/// A fused function on its way to machine code.
struct Kernel {
  Kernel(relay::Function func, Target for_target) : source(std::move(func)), target(std::move(for_target)) {}
  std::string symbol;  ///< final once declared
  relay::Function source;
  Target target;
  tir::PrimFunc scheduled;  ///< null until lowered
  tir::PrimFunc lowered;    ///< null until lowered; stays so where the code comes from the cache on disk
  std::string choices;      ///< how its loops were chosen: records for schedule.plans, and notes as comments
  std::string object;       ///< machine code, for targets that have some
  std::map<std::string, std::string> texts;  ///< of the code, by format: those that were asked for
  bool from_cache = false;
  int uses = 0;  ///< calls in the graph; 0: not declared
  /// Positions among the operands (tuples flattened) of those that it may write its result over; see FindInPlace.
  std::vector<int> in_place;
};

/// Whether the function is compiled as a kernel, here or by an external code generator.
bool IsKernel(const relay::FunctionNode* func);

struct EngineOptions {
  int threads = 1;
  std::vector<std::string> texts;  ///< formats of texts to keep (TargetSpec::texts)
  bool use_cache = true;           ///< the cache on disk
  ProgressFn progress = nullptr;   ///< may be null
};

class CompileEngine {
 public:
  explicit CompileEngine(std::string module_name = "default");

  /// The kernel of `func` on `target`, equal functions have one. Whether it is part of what is built Declare says.
  Kernel& Find(const relay::Function& func, const Target& target);
  /// Declares a use of it: at the first one it gets its symbol and joins kernels().
  Kernel& Declare(const relay::Function& func, const Target& target);
  /// Tensor expressions, schedule and lowering of every declared kernel that isn't lowered yet. An error names the
  /// operators of the kernel and the places they come from.
  void LowerAll(int threads);
  void Lower(Kernel* kernel);
  /// Finds `in_place` of the kernels by lowering them, unless the cache on disk knows it. None may write over its
  /// operands where users' lowering is in use.
  void FindInPlace(const std::vector<Kernel*>& kernels, const EngineOptions& options);
  /// Machine code of every kernel whose target makes objects, lowering what isn't in the cache on disk.
  void CompileAll(const EngineOptions& options);
  /// Forgets everything.
  void Clear();

  /// Those that are declared, in order of first use.
  const std::vector<Kernel*>& kernels() const { return declared_; }

 private:
  std::string prefix_;
  std::unordered_map<KernelKey, std::unique_ptr<Kernel>, KernelKeyHash> kernels_;
  std::vector<Kernel*> declared_;
  std::unordered_map<std::string, int> names_;
};

/// Whether code for the target is objects that the linker takes.
bool MakesObjects(const Target& target);

/// Calls `work(i)` for i in [0, count) on `threads` threads in the pass context of the caller; the exception of the
/// smallest i that failed is rethrown.
void ParallelFor(size_t count, int threads, const std::function<void(size_t)>& work);

}  // namespace treadle::driver
