// SPDX-License-Identifier: Apache-2.0
// Bytecode of the interpreter: registers of 64 bits, each an integer (of any dtype, extended) or a double (a float of
// any dtype, exactly). Vectors are several registers. After each operation the result is brought to its dtype: floats
// are rounded, integers wrapped. Arithmetic in double rounded to float32 is float32 arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "treadle/runtime/data_type.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::targets {

enum class VmOp : uint8_t {
  kConst,  ///< dst = constants[a]
  kMove,   ///< dst = reg a
  kAddI,
  kSubI,
  kMulI,
  kDivI,
  kModI,
  kFloorDivI,
  kFloorModI,
  kMinI,
  kMaxI,
  kAddF,
  kSubF,
  kMulF,
  kDivF,
  kMinF,
  kMaxF,
  kEqI,
  kNeI,
  kLtI,
  kLeI,
  kLtU,
  kLeU,
  kEqF,
  kNeF,
  kLtF,
  kLeF,
  kAnd,
  kOr,
  kNot,
  kBitAnd,
  kBitOr,
  kBitXor,
  kBitNot,
  kShl,
  kShr,
  kPopcount,
  kClz,
  kAbsI,
  kSelect,  ///< dst = reg a ? reg b : reg c
  kIntToFloat,
  kUIntToFloat,
  kFloatToInt,
  kFloatToBool,
  kRound,        ///< kRound: to the dtype
  kReinterpret,  ///< a holds a value of dtype number b
  kMath1,
  kMath2,
  kFma,         ///< function number in `extra`
  kLoad,        ///< dst = buffer a at element reg b
  kStore,       ///< buffer a at element reg b = reg c
  kCheck,       ///< reg a within [0, reg b) or fail: buffer c, dimension dst
  kAlloc,       ///< buffer a of reg b elements
  kJump,        ///< to a
  kJumpIfZero,  ///< to b where reg a is 0
  kFail,        ///< message a
  kAssert,      ///< reg a or fail with message b
  kReturn,
  // Arguments are put together one by one, then the call takes them all.
  kPushInt,     ///< reg a
  kPushFloat,   ///< reg a
  kPushString,  ///< message a
  kPushExtent,  ///< reg a: of the tensor to come
  kPushTensor,  ///< buffer a from element reg b on
  kCallPacked,  ///< registered function named by message a; dst = its result, a float where extra
  kAddress,     ///< dst = where buffer a begins, to be compared with others
};

struct VmInstruction {
  VmOp op = VmOp::kReturn;
  uint8_t code = 0;  ///< of the result's dtype
  uint8_t bits = 0;
  uint8_t extra = 0;
  int32_t dst = 0, a = 0, b = 0, c = 0;
};

/// Scalar functions, by number.
const std::vector<std::string>& VmFunctionNames();

struct VmProgram {
  struct BufferInfo {
    std::string name;
    DataType dtype;
    int32_t param = -1;  ///< position among the arguments; -1: allocated
  };
  struct Param {
    DataType dtype;
    std::vector<int32_t> shape;  ///< per dimension the register that holds its expected value
    std::vector<uint8_t> binds;  ///< per dimension whether it gives that register its value
    int32_t buffer = 0;
  };
  std::string name;
  std::vector<VmInstruction> prologue;  ///< computes expected dimensions once symbolic ones are bound
  std::vector<VmInstruction> code;
  std::vector<uint64_t> constants;
  std::vector<std::string> messages;
  std::vector<BufferInfo> buffers;
  std::vector<Param> params;
  int32_t registers = 0;

  /// Checks the arguments and runs. Throws ShapeError, DTypeError, RuntimeError.
  void Run(const std::vector<runtime::NDArray>& args) const;
  /// Bytes that Load takes. Load throws ModelFormatError on anything that can't be a program.
  std::string Save() const;
  static VmProgram Load(const std::string& bytes);
  /// One instruction per line.
  std::string Disassemble() const;
};

}  // namespace treadle::targets
