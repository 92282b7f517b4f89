// SPDX-License-Identifier: Apache-2.0
#include "driver/vm/function_builder.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "runtime/vm/opcodes.h"
#include "treadle/base/error.h"

namespace treadle::driver {

using runtime::vm::Function;
using runtime::vm::Imm;
using runtime::vm::InfoOf;
using runtime::vm::Instruction;
using runtime::vm::OpcodeInfo;
using runtime::vm::Slot;

int VmFunctionBuilder::ConstantInt(int64_t value) {
  auto [it, inserted] = constants_.emplace(value, next_int_);
  if (inserted) {
    constant_list_.emplace_back(value, next_int_);
    ++next_int_;
  }
  return it->second;
}

void VmFunctionBuilder::Emit(Opcode op, int dst, int a, int b, int64_t imm, const std::vector<int>& args) {
  Instruction i;
  i.op = op;
  i.dst = dst;
  i.a = a;
  i.b = b;
  i.imm = imm;
  i.args_begin = static_cast<uint32_t>(operands_.size());
  i.num_args = static_cast<uint32_t>(args.size());
  for (int arg : args) {
    TREADLE_ICHECK(arg >= 0) << "operand without register";
    operands_.push_back(static_cast<uint32_t>(arg));
  }
  code_.push_back(i);
  origins_.push_back(origin_);
}

size_t VmFunctionBuilder::EmitJump() {
  Emit(Opcode::kJump, -1, -1, -1, 0);
  return code_.size() - 1;
}

size_t VmFunctionBuilder::EmitJumpIfZero(int condition) {
  Emit(Opcode::kJumpIfZero, -1, condition, -1, 0);
  return code_.size() - 1;
}

namespace {

/// Number of leading operands that are object registers. Kernels have theirs counted in `b` while being built, and in
/// `dst` what is in `b` afterwards.
uint32_t ObjectOperands(const Instruction& i) {
  if (i.op == Opcode::kKernel) return static_cast<uint32_t>(i.b);
  return InfoOf(i.op).args == Slot::kObject ? i.num_args : 0;
}

}  // namespace

/// Jumps go forward only, so that an interval of positions holds all that is executed between a value's definition and
/// its last use. What a conditional part uses of outside is released behind it, since it may be skipped.
std::vector<VmFunctionBuilder::Interval> VmFunctionBuilder::LiveIntervals() const {
  std::vector<Interval> live(static_cast<size_t>(next_register_));
  for (size_t p = 0; p < num_params_; ++p) live[p] = {0, 0};
  auto touch = [&](int64_t reg, size_t at) {
    Interval& interval = live[static_cast<size_t>(reg)];
    interval.begin = std::min(interval.begin, at);
    interval.end = std::max(interval.end, at + 1);
  };
  for (size_t at = 0; at < code_.size(); ++at) {
    const Instruction& i = code_[at];
    const OpcodeInfo& info = InfoOf(i.op);
    if (info.dst == Slot::kObject) touch(i.dst, at);
    if (info.a == Slot::kObject) touch(i.a, at);
    if (info.b == Slot::kObject) touch(i.b, at);
    for (uint32_t k = 0; k < ObjectOperands(i); ++k) touch(operands_[i.args_begin + k], at);
  }
  // Outer conditionals are recorded after inner ones.
  for (Interval& interval : live) {
    if (interval.begin == SIZE_MAX) continue;
    for (const auto& [begin, end] : conditionals_) {
      bool uses_inside = interval.end > begin && interval.end <= end;
      if (uses_inside && interval.begin < begin) interval.end = end;
      // Set in one part and used after the join: the parts set it before.
    }
  }
  return live;
}

void VmFunctionBuilder::AllocateRegisters(const std::vector<Interval>& intervals, Function* f) {
  std::vector<int> order;
  for (int r = 0; r < next_register_; ++r) {
    if (intervals[static_cast<size_t>(r)].begin != SIZE_MAX) order.push_back(r);
  }
  std::sort(order.begin(), order.end(), [&](int x, int y) {
    return std::pair(intervals[static_cast<size_t>(x)].begin, x) <
           std::pair(intervals[static_cast<size_t>(y)].begin, y);
  });
  std::vector<int> physical(static_cast<size_t>(next_register_), 0);
  using Ending = std::pair<size_t, int>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> active;
  std::priority_queue<int, std::vector<int>, std::greater<>> free;
  int count = static_cast<int>(num_params_);
  for (int r : order) {
    const Interval& interval = intervals[static_cast<size_t>(r)];
    if (static_cast<size_t>(r) < num_params_) {
      physical[static_cast<size_t>(r)] = r;
      active.emplace(interval.end, r);
      continue;
    }
    while (!active.empty() && active.top().first <= interval.begin) {
      free.push(active.top().second);
      active.pop();
    }
    if (free.empty()) free.push(count++);
    physical[static_cast<size_t>(r)] = free.top();
    free.pop();
    active.emplace(interval.end, physical[static_cast<size_t>(r)]);
  }
  for (Instruction& i : code_) {
    const OpcodeInfo& info = InfoOf(i.op);
    if (info.dst == Slot::kObject) i.dst = physical[static_cast<size_t>(i.dst)];
    if (info.a == Slot::kObject) i.a = physical[static_cast<size_t>(i.a)];
    if (info.b == Slot::kObject) i.b = physical[static_cast<size_t>(i.b)];
    for (uint32_t k = 0; k < ObjectOperands(i); ++k) {
      operands_[i.args_begin + k] = static_cast<uint32_t>(physical[operands_[i.args_begin + k]]);
    }
  }
  // A register is cleared where its value dies, unless a return or tail call clears all of them there.
  std::vector<std::vector<int>> kills(code_.size() + 1);
  for (int r : order) {
    const Interval& interval = intervals[static_cast<size_t>(r)];
    if (interval.end < code_.size()) kills[interval.end].push_back(physical[static_cast<size_t>(r)]);
  }
  std::vector<size_t> moved(code_.size() + 1);
  for (size_t at = 0; at < code_.size(); ++at) {
    moved[at] = f->code.size();
    bool unreachable = at > 0 && InfoOf(code_[at - 1].op).ends;
    if (!unreachable || !kills[at].empty()) {
      for (int reg : kills[at]) {
        Instruction kill;
        kill.op = Opcode::kKill;
        kill.a = reg;
        f->code.push_back(kill);
      }
    }
    const int before = f->origins.empty() ? -1 : f->origins.back().text;
    if (origins_[at] != before) f->origins.push_back({static_cast<uint32_t>(f->code.size()), origins_[at]});
    f->code.push_back(code_[at]);
  }
  moved[code_.size()] = f->code.size();
  for (Instruction& i : f->code) {
    if (InfoOf(i.op).imm == Imm::kTarget) i.imm = static_cast<int64_t>(moved[static_cast<size_t>(i.imm)]);
    if (i.op == Opcode::kKernel) i.b = std::exchange(i.dst, -1);
  }
  f->num_registers = static_cast<uint32_t>(std::max(count, 1));
}

Function VmFunctionBuilder::Finish(std::string name, std::vector<std::string> params) {
  Function f;
  f.name = std::move(name);
  f.params = std::move(params);
  AllocateRegisters(LiveIntervals(), &f);
  // Integer constants come first.
  std::vector<int> renumbered(static_cast<size_t>(next_int_), -1);
  for (const auto& [value, reg] : constant_list_) {
    renumbered[static_cast<size_t>(reg)] = static_cast<int>(f.int_constants.size());
    f.int_constants.push_back(value);
  }
  int next = static_cast<int>(f.int_constants.size());
  for (int& reg : renumbered) {
    if (reg < 0) reg = next++;
  }
  auto rename = [&](int32_t& reg) { reg = renumbered[static_cast<size_t>(reg)]; };
  for (Instruction& i : f.code) {
    const OpcodeInfo& info = InfoOf(i.op);
    if (info.dst == Slot::kInt) rename(i.dst);
    if (info.a == Slot::kInt) rename(i.a);
    if (info.b == Slot::kInt) rename(i.b);
    if (info.imm == Imm::kIntRegister) i.imm = renumbered[static_cast<size_t>(i.imm)];
  }
  for (const Instruction& i : code_) {
    if (InfoOf(i.op).args != Slot::kInt) continue;
    for (uint32_t k = ObjectOperands(i); k < i.num_args; ++k) {
      uint32_t& operand = operands_[i.args_begin + k];
      operand = static_cast<uint32_t>(renumbered[operand]);
    }
  }
  f.num_ints = static_cast<uint32_t>(next);
  f.operands = std::move(operands_);
  return f;
}

}  // namespace treadle::driver
