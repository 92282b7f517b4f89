// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <list>
#include <memory>
#include <utility>

#include "targets/stackvm/program.h"
#include "treadle/runtime/packed_func.h"
#include "treadle/runtime/registry.h"
#include "treadle/runtime/run_limits.h"
#include "treadle/runtime/scalar.h"

namespace treadle::targets {
namespace {

using runtime::NDArray;

union Register {
  int64_t i;
  double f;
};

FloatFormat FormatOf(DataType t) {
  if (const std::optional<FloatFormat> format = runtime::SmallFloatFormat(t)) return *format;
  throw DTypeError(StrCat("the interpreter can't compute with dtype ", t));
}

double RoundTo(int code, int bits, double value) {
  if (code == DataType::kFloat && bits == 32) return static_cast<double>(static_cast<float>(value));
  if (code == DataType::kFloat && bits == 64) return value;
  const FloatFormat format = FormatOf(DataType(code, bits));
  return DecodeFloat(format, EncodeFloat(format, value));
}

/// Whether registers hold the type's values. Of types without arithmetic (float4_e2m1fn, float8_e8m0fnu) they hold the
/// bits, as of integers.
bool IsReal(DataType t) {
  return t.is_floating() && (t.bits() >= 32 || runtime::SmallFloatFormat(t.element_of()).has_value());
}

int64_t WrapTo(int code, int bits, int64_t value) {
  if (bits >= 64) return value;
  const int shift = 64 - bits;
  const uint64_t up = static_cast<uint64_t>(value) << shift;
  return code == DataType::kUInt ? static_cast<int64_t>(up >> shift) : static_cast<int64_t>(up) >> shift;
}

int64_t Divide(const VmInstruction& in, int64_t a, int64_t b, bool floor, bool remainder) {
  if (b == 0) return 0;
  if (in.code == DataType::kUInt) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<int64_t>(remainder ? x % y : x / y);
  }
  if (b == -1) return remainder ? 0 : static_cast<int64_t>(-static_cast<uint64_t>(a));
  int64_t quotient = a / b, rest = a % b;
  if (floor && rest != 0 && (rest < 0) != (b < 0)) {
    --quotient;
    rest += b;
  }
  return remainder ? rest : quotient;
}

int64_t FloatToInt(int code, int bits, double value) {
  if (std::isnan(value)) return 0;
  if (code == DataType::kUInt) {
    const double limit = std::ldexp(1.0, bits);
    if (value <= 0) return 0;
    if (value >= limit) return static_cast<int64_t>(bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
    return static_cast<int64_t>(static_cast<uint64_t>(value));
  }
  const double limit = std::ldexp(1.0, bits - 1);
  if (value >= limit) return static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  if (value <= -limit) return -static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1) - 1;
  return static_cast<int64_t>(value);
}

Register LoadElement(const char* base, DataType t, int64_t index) {
  Register r{};
  const char* p = base + index * std::max(1, t.bytes());
  auto read = [&](auto value) {
    std::memcpy(&value, p, sizeof(value));
    return value;
  };
  if (t.is_bool()) {
    r.i = *p != 0 ? 1 : 0;
  } else if (!IsReal(t)) {
    switch (t.bytes()) {
      case 1:
        r.i = read(int8_t{});
        break;
      case 2:
        r.i = read(int16_t{});
        break;
      case 4:
        r.i = read(int32_t{});
        break;
      default:
        r.i = read(int64_t{});
        break;
    }
    r.i = WrapTo(t.is_int() ? DataType::kInt : DataType::kUInt, t.bits(), r.i);
  } else if (t.is_float() && t.bits() == 32) {
    r.f = read(float{});
  } else if (t.is_float() && t.bits() == 64) {
    r.f = read(double{});
  } else {
    const uint32_t bits = t.bytes() == 2 ? read(uint16_t{}) : read(uint8_t{});
    r.f = DecodeFloat(FormatOf(t), bits);
  }
  return r;
}

void StoreElement(char* base, DataType t, int64_t index, Register value) {
  char* p = base + index * std::max(1, t.bytes());
  auto write = [&](auto v) { std::memcpy(p, &v, sizeof(v)); };
  if (t.is_bool()) {
    write(static_cast<int8_t>(value.i != 0));
  } else if (!IsReal(t)) {
    switch (t.bytes()) {
      case 1:
        write(static_cast<int8_t>(value.i));
        break;
      case 2:
        write(static_cast<int16_t>(value.i));
        break;
      case 4:
        write(static_cast<int32_t>(value.i));
        break;
      default:
        write(value.i);
        break;
    }
  } else if (t.is_float() && t.bits() == 32) {
    write(static_cast<float>(value.f));
  } else if (t.is_float() && t.bits() == 64) {
    write(value.f);
  } else {
    const uint32_t bits = EncodeFloat(FormatOf(t), value.f);
    if (t.bytes() == 2) {
      write(static_cast<uint16_t>(bits));
    } else {
      write(static_cast<uint8_t>(bits));
    }
  }
}

uint64_t BitsOf(DataType t, Register r) {
  if (!IsReal(t)) return static_cast<uint64_t>(r.i);
  if (t.bits() == 64) return std::bit_cast<uint64_t>(r.f);
  if (t.bits() == 32) return std::bit_cast<uint32_t>(static_cast<float>(r.f));
  return EncodeFloat(FormatOf(t), r.f);
}
Register FromBits(DataType t, uint64_t bits) {
  Register r{};
  if (!IsReal(t)) {
    r.i = WrapTo(t.is_int() ? DataType::kInt : DataType::kUInt, t.bits(), static_cast<int64_t>(bits));
  } else if (t.bits() == 64) {
    r.f = std::bit_cast<double>(bits);
  } else if (t.bits() == 32) {
    r.f = std::bit_cast<float>(static_cast<uint32_t>(bits));
  } else {
    r.f = DecodeFloat(FormatOf(t), static_cast<uint32_t>(bits));
  }
  return r;
}

double NextAfter(int bits, double x, double y) {
  if (bits == 64) return std::nextafter(x, y);
  return std::nextafterf(static_cast<float>(x), static_cast<float>(y));
}

enum Function : uint8_t {
  kExp,
  kExp2,
  kExp10,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSqrt,
  kRsqrt,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kSigmoid,
  kFloor,
  kCeil,
  kTrunc,
  kRoundAway,
  kNearbyint,
  kFabs,
  kIsNan,
  kPow,
  kFmod,
  kAtan2,
  kHypot,
  kCopysign,
  kNextafter,
};

double Math1(uint8_t function, double x) {
  switch (function) {
    case kExp:
      return std::exp(x);
    case kExp2:
      return std::exp2(x);
    case kExp10:
      return std::pow(10.0, x);
    case kExpm1:
      return std::expm1(x);
    case kLog:
      return std::log(x);
    case kLog2:
      return std::log2(x);
    case kLog10:
      return std::log10(x);
    case kLog1p:
      return std::log1p(x);
    case kSqrt:
      return std::sqrt(x);
    case kRsqrt:
      return 1 / std::sqrt(x);
    case kSin:
      return std::sin(x);
    case kCos:
      return std::cos(x);
    case kTan:
      return std::tan(x);
    case kAsin:
      return std::asin(x);
    case kAcos:
      return std::acos(x);
    case kAtan:
      return std::atan(x);
    case kSinh:
      return std::sinh(x);
    case kCosh:
      return std::cosh(x);
    case kTanh:
      return std::tanh(x);
    case kAsinh:
      return std::asinh(x);
    case kAcosh:
      return std::acosh(x);
    case kAtanh:
      return std::atanh(x);
    case kErf:
      return std::erf(x);
    case kSigmoid:
      return 1 / (1 + std::exp(-x));
    case kFloor:
      return std::floor(x);
    case kCeil:
      return std::ceil(x);
    case kTrunc:
      return std::trunc(x);
    case kRoundAway:
      return std::round(x);
    case kNearbyint:
      return std::nearbyint(x);
    case kFabs:
      return std::fabs(x);
    default:
      throw InternalError("internal error: unknown function of the interpreter");
  }
}
double Math2(uint8_t function, int bits, double x, double y) {
  switch (function) {
    case kPow:
      return std::pow(x, y);
    case kFmod:
      return std::fmod(x, y);
    case kAtan2:
      return std::atan2(x, y);
    case kHypot:
      return std::hypot(x, y);
    case kCopysign:
      return std::copysign(x, y);
    case kNextafter:
      return NextAfter(bits, x, y);
    default:
      throw InternalError("internal error: unknown function of the interpreter");
  }
}

struct Memory {
  char* data = nullptr;
  int64_t elements = 0;
  std::unique_ptr<char[]> owned;
};

class Machine {
 public:
  explicit Machine(const VmProgram& program)
      : program_(program), r_(static_cast<size_t>(program.registers) + 1), memory_(program.buffers.size()) {}

  void Bind(const std::vector<NDArray>& args);
  void Execute(const std::vector<VmInstruction>& code);

 private:
  [[noreturn]] void OutOfBounds(const VmInstruction& in, int64_t index, int64_t extent) const {
    throw RuntimeError(StrCat(program_.name, ": index ", index, " of dimension ", in.dst, " of buffer ",
                              program_.buffers[static_cast<size_t>(in.c)].name, " is outside of [0, ", extent, ")"));
  }
  void CheckElement(size_t buffer, int64_t index) const {
    if (index >= 0 && index < memory_[buffer].elements) return;
    throw RuntimeError(StrCat(program_.name, ": element ", index, " of buffer ", program_.buffers[buffer].name, " of ",
                              memory_[buffer].elements, " elements"));
  }
  void PushTensor(const VmInstruction& in, int64_t element);
  void CallPacked(const VmInstruction& in);
  /// The next instruction's number after a jump to `target`. Every loop has a jump back: the run may end there.
  size_t Jump(size_t pc, int32_t target) {
    constexpr uint32_t kJumpsPerCheck = 4096;  // reading the clock costs as much as some instructions
    const auto next = static_cast<size_t>(target);
    if (next < pc && limits_ != nullptr && ++jumps_back_ % kJumpsPerCheck == 0) limits_->Check();
    return next;
  }

  /// Arguments of the call to come.
  struct Pending {
    std::vector<TreadleValue> values;
    std::vector<int> codes;
    std::vector<int64_t> extents;
    std::list<std::vector<int64_t>> shapes;
    std::list<DLTensor> tensors;
    void Push(TreadleValue value, int code) {
      values.push_back(value);
      codes.push_back(code);
    }
  };

  const VmProgram& program_;
  std::vector<Register> r_;
  std::vector<Memory> memory_;
  Pending pending_;
  const runtime::RunLimitScope* limits_ = runtime::RunLimitScope::Current();  ///< null: none
  uint32_t jumps_back_ = 0;
};

void Machine::PushTensor(const VmInstruction& in, int64_t element) {
  const auto id = static_cast<size_t>(in.a);
  const DataType dtype = program_.buffers[id].dtype;
  pending_.shapes.push_back(std::exchange(pending_.extents, {}));
  const std::vector<int64_t>& shape = pending_.shapes.back();
  int64_t count = 1;
  for (int64_t n : shape) count = n < 0 || __builtin_mul_overflow(count, n, &count) ? INT64_MAX : count;
  if (element < 0 || element > memory_[id].elements || count > memory_[id].elements - element) {
    throw RuntimeError(StrCat(program_.name, ": a tensor of ", count, " elements from element ", element, " of buffer ",
                              program_.buffers[id].name, ", which has ", memory_[id].elements));
  }
  DLTensor tensor{};
  tensor.data = memory_[id].data + element * std::max(1, dtype.bytes());
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int>(shape.size());
  tensor.dtype = {static_cast<uint8_t>(dtype.code()), static_cast<uint8_t>(dtype.bits()), 1};
  tensor.shape = const_cast<int64_t*>(shape.data());
  pending_.tensors.push_back(tensor);
  TreadleValue value{};
  value.v_handle = &pending_.tensors.back();
  pending_.Push(value, kTreadleDLTensor);
}

void Machine::CallPacked(const VmInstruction& in) {
  const std::string& name = program_.messages[static_cast<size_t>(in.a)];
  const runtime::PackedFunc function = runtime::Registry::Get(name);
  if (!function.defined()) throw RuntimeError(StrCat(program_.name, ": there is no registered function '", name, "'"));
  Pending arguments = std::exchange(pending_, {});
  runtime::RetValue result;
  function.CallPacked({arguments.values.data(), arguments.codes.data(), static_cast<int>(arguments.values.size())},
                      &result);
  Register& d = r_[static_cast<size_t>(in.dst)];
  d.i = 0;
  if (result.type_code() == kTreadleInt) {
    d.i = static_cast<int64_t>(result);
    if (in.extra != 0) d.f = static_cast<double>(d.i);
  } else if (result.type_code() == kTreadleFloat) {
    const auto value = static_cast<double>(result);
    if (in.extra != 0) {
      d.f = value;
    } else {
      d.i = FloatToInt(DataType::kInt, 64, value);
    }
  }
}

void Machine::Bind(const std::vector<NDArray>& args) {
  if (args.size() != program_.params.size()) {
    throw Error(StrCat(program_.name, ": num_args should be ", program_.params.size(), ", not ", args.size()));
  }
  for (size_t i = 0; i < args.size(); ++i) {
    const auto& param = program_.params[i];
    if (args[i].dtype() != param.dtype) {
      throw DTypeError(
          StrCat(program_.name, ": arg", i, ".dtype is expected to be ", param.dtype, ", not ", args[i].dtype()));
    }
    if (args[i].shape().size() != param.shape.size()) {
      throw ShapeError(StrCat(program_.name, ": arg", i, ".ndim is expected to equal ", param.shape.size(), ", not ",
                              args[i].shape().size()));
    }
    if (!args[i].IsCompact())
      throw ShapeError(StrCat(program_.name, ": arg", i, ".strides: expected to be compact array"));
    for (size_t d = 0; d < param.shape.size(); ++d) {
      if (param.binds[d] != 0) r_[static_cast<size_t>(param.shape[d])].i = args[i].shape()[d];
    }
    Memory& memory = memory_[static_cast<size_t>(param.buffer)];
    memory.data = static_cast<char*>(args[i].data_ptr());
    memory.elements = args[i].size();
  }
  Execute(program_.prologue);
  for (size_t i = 0; i < args.size(); ++i) {
    const auto& param = program_.params[i];
    for (size_t d = 0; d < param.shape.size(); ++d) {
      const int64_t expected = r_[static_cast<size_t>(param.shape[d])].i;
      if (args[i].shape()[d] != expected) {
        throw ShapeError(StrCat(program_.name, ": arg", i, ".shape[", d, "] is expected to equal ", expected, ", not ",
                                args[i].shape()[d]));
      }
    }
  }
}

void Machine::Execute(const std::vector<VmInstruction>& code) {
  size_t pc = 0;
  while (pc < code.size()) {
    const VmInstruction& in = code[pc++];
    Register& d = r_[static_cast<size_t>(in.dst)];
    const Register& a =
        r_[static_cast<size_t>(std::max(in.a, 0)) < r_.size() ? static_cast<size_t>(std::max(in.a, 0)) : 0];
    const Register& b =
        r_[static_cast<size_t>(std::max(in.b, 0)) < r_.size() ? static_cast<size_t>(std::max(in.b, 0)) : 0];
    const Register& c =
        r_[static_cast<size_t>(std::max(in.c, 0)) < r_.size() ? static_cast<size_t>(std::max(in.c, 0)) : 0];
    const auto wrap = [&](uint64_t v) { return WrapTo(in.code, in.bits, static_cast<int64_t>(v)); };
    const auto round = [&](double v) { return RoundTo(in.code, in.bits, v); };
    const auto ua = [&] { return static_cast<uint64_t>(a.i); };
    const auto ub = [&] { return static_cast<uint64_t>(b.i); };
    switch (in.op) {
      case VmOp::kConst:
        d.i = static_cast<int64_t>(program_.constants[static_cast<size_t>(in.a)]);
        break;
      case VmOp::kMove:
        d = a;
        break;
      case VmOp::kAddI:
        d.i = wrap(ua() + ub());
        break;
      case VmOp::kSubI:
        d.i = wrap(ua() - ub());
        break;
      case VmOp::kMulI:
        d.i = wrap(ua() * ub());
        break;
      case VmOp::kDivI:
        d.i = wrap(static_cast<uint64_t>(Divide(in, a.i, b.i, false, false)));
        break;
      case VmOp::kModI:
        d.i = wrap(static_cast<uint64_t>(Divide(in, a.i, b.i, false, true)));
        break;
      case VmOp::kFloorDivI:
        d.i = wrap(static_cast<uint64_t>(Divide(in, a.i, b.i, true, false)));
        break;
      case VmOp::kFloorModI:
        d.i = wrap(static_cast<uint64_t>(Divide(in, a.i, b.i, true, true)));
        break;
      case VmOp::kMinI:
        d.i = (in.code == DataType::kUInt ? ua() < ub() : a.i < b.i) ? a.i : b.i;
        break;
      case VmOp::kMaxI:
        d.i = (in.code == DataType::kUInt ? ua() > ub() : a.i > b.i) ? a.i : b.i;
        break;
      case VmOp::kAddF:
        d.f = round(a.f + b.f);
        break;
      case VmOp::kSubF:
        d.f = round(a.f - b.f);
        break;
      case VmOp::kMulF:
        d.f = round(a.f * b.f);
        break;
      case VmOp::kDivF:
        d.f = round(a.f / b.f);
        break;
      case VmOp::kMinF:
        d.f = std::isnan(a.f) ? a.f : a.f < b.f ? a.f : b.f;
        break;
      case VmOp::kMaxF:
        d.f = std::isnan(a.f) ? a.f : a.f > b.f ? a.f : b.f;
        break;
      case VmOp::kEqI:
        d.i = a.i == b.i;
        break;
      case VmOp::kNeI:
        d.i = a.i != b.i;
        break;
      case VmOp::kLtI:
        d.i = a.i < b.i;
        break;
      case VmOp::kLeI:
        d.i = a.i <= b.i;
        break;
      case VmOp::kLtU:
        d.i = ua() < ub();
        break;
      case VmOp::kLeU:
        d.i = ua() <= ub();
        break;
      case VmOp::kEqF:
        d.i = a.f == b.f;
        break;
      case VmOp::kNeF:
        d.i = !(a.f == b.f);
        break;
      case VmOp::kLtF:
        d.i = a.f < b.f;
        break;
      case VmOp::kLeF:
        d.i = a.f <= b.f;
        break;
      case VmOp::kAnd:
        d.i = a.i != 0 && b.i != 0;
        break;
      case VmOp::kOr:
        d.i = a.i != 0 || b.i != 0;
        break;
      case VmOp::kNot:
        d.i = a.i == 0;
        break;
      case VmOp::kBitAnd:
        d.i = a.i & b.i;
        break;
      case VmOp::kBitOr:
        d.i = a.i | b.i;
        break;
      case VmOp::kBitXor:
        d.i = a.i ^ b.i;
        break;
      case VmOp::kBitNot:
        d.i = wrap(~ua());
        break;
      case VmOp::kShl:
        d.i = ub() >= in.bits ? 0 : wrap(ua() << ub());
        break;
      case VmOp::kShr:
        if (in.code == DataType::kInt) {
          d.i = a.i >> (ub() >= in.bits ? in.bits - 1 : b.i);
        } else {
          d.i = ub() >= in.bits ? 0 : static_cast<int64_t>(ua() >> ub());
        }
        break;
      case VmOp::kPopcount:
        d.i = std::popcount(ua() & (in.extra >= 64 ? ~uint64_t{0} : (uint64_t{1} << in.extra) - 1));
        break;
      case VmOp::kClz:
        d.i =
            std::countl_zero(ua() & (in.extra >= 64 ? ~uint64_t{0} : (uint64_t{1} << in.extra) - 1)) - (64 - in.extra);
        break;
      case VmOp::kAbsI:
        d.i = wrap(a.i < 0 ? uint64_t{0} - ua() : ua());
        break;
      case VmOp::kSelect:
        d = a.i != 0 ? b : c;
        break;
      case VmOp::kIntToFloat:
        d.f = in.bits == 32 && in.code == DataType::kFloat ? static_cast<double>(static_cast<float>(a.i))
                                                           : round(static_cast<double>(a.i));
        break;
      case VmOp::kUIntToFloat:
        d.f = in.bits == 32 && in.code == DataType::kFloat ? static_cast<double>(static_cast<float>(ua()))
                                                           : round(static_cast<double>(ua()));
        break;
      case VmOp::kFloatToInt:
        d.i = FloatToInt(in.code, in.bits, a.f);
        break;
      case VmOp::kFloatToBool:
        d.i = !(a.f == 0);
        break;
      case VmOp::kRound:
        if (in.code == DataType::kInt || in.code == DataType::kUInt) {
          d.i = wrap(ua());
        } else {
          d.f = round(a.f);
        }
        break;
      case VmOp::kReinterpret:
        d = FromBits(DataType(in.code, in.bits), BitsOf(DataType(in.b, in.extra), a));
        break;
      case VmOp::kMath1:
        if (in.extra == kIsNan) {
          d.i = std::isnan(a.f);
        } else {
          d.f = round(Math1(in.extra, a.f));
        }
        break;
      case VmOp::kMath2:
        d.f = round(Math2(in.extra, in.bits, a.f, b.f));
        break;
      case VmOp::kFma:
        d.f = round(std::fma(a.f, b.f, c.f));
        break;
      case VmOp::kLoad: {
        const auto buffer = static_cast<size_t>(in.a);
        CheckElement(buffer, b.i);
        d = LoadElement(memory_[buffer].data, program_.buffers[buffer].dtype.element_of(), b.i);
        break;
      }
      case VmOp::kStore: {
        const auto buffer = static_cast<size_t>(in.a);
        CheckElement(buffer, b.i);
        StoreElement(memory_[buffer].data, program_.buffers[buffer].dtype.element_of(), b.i, c);
        break;
      }
      case VmOp::kCheck:
        if (a.i < 0 || a.i >= b.i) OutOfBounds(in, a.i, b.i);
        break;
      case VmOp::kAlloc: {
        Memory& memory = memory_[static_cast<size_t>(in.a)];
        const DataType t = program_.buffers[static_cast<size_t>(in.a)].dtype;
        int64_t bytes = 0;
        if (b.i < 0 || __builtin_mul_overflow(b.i, std::max(1, t.bytes()), &bytes) || bytes > (int64_t{1} << 40)) {
          throw RuntimeError(StrCat(program_.name, ": buffer of ", b.i, " elements"));
        }
        if (memory.elements < b.i || memory.owned == nullptr) {
          memory.owned = std::make_unique<char[]>(static_cast<size_t>(std::max<int64_t>(bytes, 8)));
          memory.data = memory.owned.get();
          memory.elements = b.i;
        }
        // A read before the first write shows as NaN or an absurd number.
        std::memset(memory.data, 0xff, static_cast<size_t>(bytes));
        break;
      }
      case VmOp::kJump:
        pc = Jump(pc, in.a);
        break;
      case VmOp::kJumpIfZero:
        if (a.i == 0) pc = Jump(pc, in.b);
        break;
      case VmOp::kFail:
        throw RuntimeError(program_.messages[static_cast<size_t>(in.a)]);
      case VmOp::kAssert:
        if (a.i == 0) throw RuntimeError(program_.messages[static_cast<size_t>(in.b)]);
        break;
      case VmOp::kReturn:
        return;
      case VmOp::kPushInt:
      case VmOp::kPushFloat: {
        TreadleValue value{};
        if (in.op == VmOp::kPushInt) {
          value.v_int64 = a.i;
        } else {
          value.v_float64 = a.f;
        }
        pending_.Push(value, in.op == VmOp::kPushInt ? kTreadleInt : kTreadleFloat);
        break;
      }
      case VmOp::kPushString: {
        TreadleValue value{};
        value.v_str = program_.messages[static_cast<size_t>(in.a)].c_str();
        pending_.Push(value, kTreadleStr);
        break;
      }
      case VmOp::kPushExtent:
        pending_.extents.push_back(a.i);
        break;
      case VmOp::kPushTensor:
        PushTensor(in, b.i);
        break;
      case VmOp::kAddress:
        d.i = reinterpret_cast<int64_t>(memory_[static_cast<size_t>(in.a)].data);
        break;
      case VmOp::kCallPacked:
        CallPacked(in);
        break;
    }
  }
}

}  // namespace

const std::vector<std::string>& VmFunctionNames() {
  static const std::vector<std::string> names = {
      "exp",   "exp2",  "exp10", "expm1",   "log",   "log2",     "log10",    "log1p", "sqrt",      "rsqrt",
      "sin",   "cos",   "tan",   "asin",    "acos",  "atan",     "sinh",     "cosh",  "tanh",      "asinh",
      "acosh", "atanh", "erf",   "sigmoid", "floor", "ceil",     "trunc",    "round", "nearbyint", "fabs",
      "isnan", "pow",   "fmod",  "atan2",   "hypot", "copysign", "nextafter"};
  return names;
}

void VmProgram::Run(const std::vector<NDArray>& args) const {
  Machine machine(*this);
  machine.Bind(args);
  machine.Execute(code);
}

}  // namespace treadle::targets
