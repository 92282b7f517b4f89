// SPDX-License-Identifier: Apache-2.0
// Writes one function of a VM program: virtual registers, forward jumps, release of values after their last use.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "treadle/runtime/vm/program.h"

namespace treadle::driver {

using runtime::vm::Opcode;

class VmFunctionBuilder {
 public:
  explicit VmFunctionBuilder(size_t num_params)
      : next_register_(static_cast<int>(num_params)), num_params_(num_params) {}

  int NewRegister() { return next_register_++; }
  int NewInt() { return next_int_++; }
  /// The integer register that holds a constant.
  int ConstantInt(int64_t value);
  /// Where the next instruction will stand.
  size_t position() const { return code_.size(); }

  /// The node that instructions from here on are made for, a string of the program; -1: none. Returns the one before.
  int SetOrigin(int text) { return std::exchange(origin_, text); }
  void Emit(Opcode op, int dst, int a, int b, int64_t imm, const std::vector<int>& args = {});
  /// A jump whose target is set by Land.
  size_t EmitJump();
  size_t EmitJumpIfZero(int condition);
  /// The jump goes to the next instruction.
  void Land(size_t jump) { code_[jump].imm = static_cast<int64_t>(code_.size()); }
  /// Instructions from `begin` on are run or not depending on a condition.
  void EndConditional(size_t begin) { conditionals_.emplace_back(begin, code_.size()); }

  /// The finished function: values are released after their last use, and registers used again.
  runtime::vm::Function Finish(std::string name, std::vector<std::string> params);

 private:
  struct Interval {
    size_t begin = SIZE_MAX, end = 0;  ///< live after `begin`, dead from `end` on
  };
  std::vector<Interval> LiveIntervals() const;
  void AllocateRegisters(const std::vector<Interval>& intervals, runtime::vm::Function* f);

  std::vector<runtime::vm::Instruction> code_;
  std::vector<int> origins_;  ///< of each instruction
  std::vector<uint32_t> operands_;
  std::vector<std::pair<size_t, size_t>> conditionals_;
  std::unordered_map<int64_t, int> constants_;
  std::vector<std::pair<int64_t, int>> constant_list_;
  int next_register_, next_int_ = 0, origin_ = -1;
  size_t num_params_;
};

}  // namespace treadle::driver
