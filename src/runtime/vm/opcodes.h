// SPDX-License-Identifier: Apache-2.0
// What each instruction of the virtual machine takes: one table for the verifier and the disassembler.
#pragma once

#include "treadle/runtime/vm/program.h"

namespace treadle::runtime::vm {

/// What a register operand is.
enum class Slot : uint8_t { kNone, kObject, kInt };
/// What `imm` is.
enum class Imm : uint8_t { kNone, kString, kConstant, kFunction, kTarget, kIndex, kIntOp, kIntRegister, kDType };

struct OpcodeInfo {
  const char* name;
  Slot dst, a, b, args;
  Imm imm;
  bool ends;  ///< the next instruction isn't reached from here
};

const OpcodeInfo& InfoOf(Opcode op);
const char* IntOpName(IntOp op);

}  // namespace treadle::runtime::vm
