// SPDX-License-Identifier: Apache-2.0
// Programs of the virtual machine: what a graph can't hold (control flow, recursion, data types, shapes that are only
// known when the model runs).
//
// A register machine. Each function has object registers (tensors, data, closures, references), written r0, r1, .., and
// integer registers (dimensions, tags, conditions), written i0, i1, ... Its arguments arrive in r0, r1, ..; the first
// integer registers hold its constants. Jumps go forward only, so that a function without calls ends; loops are tail
// calls, which reuse the caller's registers.
//
// As the section "vm" of an artifact (little-endian): char[4] "TVMX", u32 version, strings (u64 count, each u64 length
// and bytes), kernels (u64 count; string name, u32 tensors, u32 outputs, u32 scalars, and from version 2 on u32 number
// of terms (all ones: not known), each f64 factor, u32 count of pairs u32 tensor, u32 dimension), functions (u64 count;
// string name, parameter names, u32 object registers, u32 integer registers, integer constants, operands,
// instructions), u32 entry. Tensors that programs use are the artifact's parameters, in order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "treadle/runtime/data_type.h"

namespace treadle::runtime::vm {

/// dst, a, b: registers; imm: a number; args: a list of registers. r = object register, i = integer register.
enum class Opcode : uint8_t {
  kFatal,        ///< throws string imm
  kMove,         ///< r dst = r a
  kReturn,       ///< r a
  kLoadConst,    ///< r dst = constant imm on device type b (-1: the CPU)
  kInvoke,       ///< r dst = function imm (r args)
  kTailInvoke,   ///< return function imm (r args)
  kApply,        ///< r dst = closure r a (r args)
  kTailApply,    ///< return closure r a (r args)
  kKernel,       ///< kernel imm: r args (inputs, then outputs), then i args (scalars); b: the string that names the
                 ///< model's nodes, or -1
  kAllocTensor,  ///< r dst = new tensor of dtype imm (PackDType) and shape i args, on device type b (-1: the CPU)
  kAllocData,    ///< r dst = data of tag imm and fields r args
  kGetField,     ///< r dst = field imm of r a
  kGetTag,       ///< i dst = tag of r a
  kMakeClosure,  ///< r dst = closure of function imm over r args
  kRefNew,       ///< r dst = reference to r a
  kRefRead,      ///< r dst = what r a refers to
  kRefWrite,     ///< r a refers to r b
  kJump,         ///< to instruction imm, which is further on
  kJumpIfZero,   ///< as kJump, where i a is 0
  kReadInt,      ///< i dst = element imm of the integer tensor r a (in row-major order)
  kDimOf,        ///< i dst = dimension imm of r a
  kIntOp,        ///< i dst = i a (IntOp imm) i b
  kSelect,       ///< i dst = i a != 0 ? i b : i imm
  kCheckEqual,   ///< throws ShapeError string imm unless i a == i b
  kReshape,      ///< r dst = r a with shape i args, in the same memory
  kMakeInts,     ///< r dst = tensor of dtype imm with the elements i args; b = rank: 0 or 1
  kAppend,       ///< r dst = r a with r b as a further row; a without rows and of another shape is replaced
  kTakeRows,     ///< r dst = the first i b rows of r a, in the same memory
  kKill,         ///< r a = null
  kRank,         ///< throws ShapeError string b unless r a is a tensor of rank imm
  kCallHost,     ///< r dst = the host function called string imm (host.h) (r args)
  kDeviceCopy,   ///< r dst = r a on device type imm; r a itself where it is there
};
inline constexpr int kNumOpcodes = static_cast<int>(Opcode::kDeviceCopy) + 1;
/// What b says where tensors are made.
inline constexpr int32_t kOnCpu = -1;
/// Device types of programs are below.
inline constexpr int32_t kMaxDeviceTypes = 64;

/// Arithmetic wraps; division by zero is an error. Comparisons give 0 or 1.
enum class IntOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kFloorDiv,
  kFloorMod,
  kTruncDiv,
  kTruncMod,
  kMin,
  kMax,
  kEQ,
  kNE,
  kLT,
  kLE,
  kAnd,
  kOr
};
inline constexpr int kNumIntOps = static_cast<int>(IntOp::kOr) + 1;

struct Instruction {
  Opcode op = Opcode::kFatal;
  int32_t dst = -1, a = -1, b = -1;
  int64_t imm = 0;
  uint32_t args_begin = 0;  ///< in Function::operands
  uint32_t num_args = 0;
};

/// The node of the model that instructions were made for: those from `begin` to the next origin.
struct Origin {
  uint32_t begin = 0;
  int32_t text = -1;  ///< in Program::strings; -1: of no node
};

struct Function {
  std::string name;
  std::vector<std::string> params;
  uint32_t num_registers = 0;
  uint32_t num_ints = 0;
  std::vector<int64_t> int_constants;  ///< the first integer registers
  std::vector<uint32_t> operands;
  std::vector<Instruction> code;
  std::vector<Origin> origins;  ///< in the order of `begin`
};

/// Multiply-adds: `factor` times dimensions of a kernel's tensors, given as (tensor, dimension).
struct MacTerm {
  double factor = 0;
  std::vector<std::pair<uint32_t, uint32_t>> dims;
};

/// A compiled function: tensors (inputs, then `outputs`), then int64 scalars.
struct KernelDecl {
  std::string name;
  uint32_t tensors = 0;
  uint32_t outputs = 0;
  uint32_t scalars = 0;
  std::vector<MacTerm> macs;  ///< the sum of them: multiply-adds of its convolutions and matrix products as defined
  bool macs_known = false;
  double mac_share = 1;  ///< of them, what its method executes: Winograd's fewer
};

struct Program {
  std::vector<std::string> strings;
  std::vector<KernelDecl> kernels;
  std::vector<Function> functions;
  uint32_t entry = 0;
  uint32_t num_constants = 0;  ///< not stored: that of the artifact's parameters

  std::string Save() const;
  /// Throws ModelFormatError unless every register, function, kernel, constant, string and jump exists. `what` is
  /// named.
  static Program Load(std::string_view bytes, uint32_t num_constants, const std::string& what = "vm program");
  /// The checks of Load.
  void Verify(const std::string& what) const;
  /// Text: one line for each instruction.
  std::string Disassemble() const;
  /// Index of the function called `name`, or -1.
  int FindFunction(const std::string& name) const;
};

inline constexpr int64_t PackDType(DataType dtype) {
  return static_cast<int64_t>(dtype.code()) << 32 | static_cast<int64_t>(dtype.bits()) << 16 | dtype.lanes();
}
inline constexpr DataType UnpackDType(int64_t packed) {
  return DataType(static_cast<int>(packed >> 32 & 0xff), static_cast<int>(packed >> 16 & 0xff),
                  static_cast<int>(packed & 0xffff));
}

}  // namespace treadle::runtime::vm
