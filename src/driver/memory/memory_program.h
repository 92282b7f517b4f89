// SPDX-License-Identifier: Apache-2.0
// A fused function as a list of steps over tensors: what memory planners work on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "treadle/relay/expr.h"

namespace treadle::driver {

struct PlannedTensor {
  int64_t bytes = 0;
  int device_type = 0;      ///< DLDeviceType; 0: the default device
  int64_t uses = 0;         ///< by later steps, one per argument position, and one per place in the result
  int defined_at = -1;      ///< step that computes it; -1: parameter
  int last_use = -1;        ///< last step that reads it; the number of steps when it is part of the result
  int alias_of = -1;        ///< tensor whose memory it is (results of reshape-only functions)
  bool persistent = false;  ///< a parameter or constant: has its memory for itself
};

/// A constant that is met (outputs only), or a call.
struct PlannedStep {
  const relay::CallNode* call = nullptr;
  std::vector<int> inputs;  ///< one per argument tensor, repeated as often as used
  std::vector<int> outputs;
  int memory_from = -1;  ///< step from which its results have their memory for themselves; -1: this one
};

struct MemoryProgram {
  std::vector<PlannedTensor> tensors;  ///< parameters first
  std::vector<PlannedStep> steps;      ///< in order of execution
  std::unordered_map<relay::Expr, std::vector<int>, ObjectPtrHash, ObjectPtrEqual> tensors_of;
  size_t num_params = 0;  ///< tensors of parameters
};

/// Linearises `func`: depth first, arguments left to right, each expression once. Lets are other names of values.
/// Throws Error for control flow and nested functions, and for shapes that aren't known.
MemoryProgram LinearizeForMemory(const relay::Function& func, bool share_reshapes = true);

/// Whether the function of a call may write its result over the operand at a position (tuples flattened).
using InPlaceRule = std::function<bool(const relay::CallNode* call, size_t operand)>;

/// Whether step `step` may write its output over input `input` (the tensor's memory being free afterwards): they have
/// one shape, and `rule` allows it wherever the input is an operand. Without a rule functions that are element-wise do.
bool MayWriteInPlace(const MemoryProgram& program, const PlannedStep& step, int input, const InPlaceRule& rule = {});

/// The calls that could write over an operand as far as shapes and lives of tensors go, for which the rule will be
/// asked.
std::vector<const relay::CallNode*> InPlaceCandidates(const MemoryProgram& program);

/// The operands of step `step` that its result can be made of without copying: the step joins tensors (concatenate) and
/// each operand is one piece of the result's memory, all on the CPU. One byte offset per operand, or nothing.
std::vector<int64_t> PiecesOfJoin(const MemoryProgram& program, const PlannedStep& step);
/// The same for a step that splits its operand: one byte offset in the operand per result.
std::vector<int64_t> PiecesOfSplit(const MemoryProgram& program, const PlannedStep& step);

/// Alignment of every tensor in an arena, in bytes.
inline constexpr int64_t kArenaAlignment = 64;

}  // namespace treadle::driver
