// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/prim_ops.h"

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "ir/prim_fold.h"
#include "treadle/base/half.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/runtime/custom_datatype.h"
#include "treadle/runtime/registry.h"
#include "treadle/runtime/scalar.h"

namespace treadle::tir {

using runtime::ActsAsFloat;
namespace {

/// The scalar constant behind `x`: itself, or the value of a broadcast.
const PrimExprNode* ScalarConst(const PrimExpr& x) {
  const auto* broadcast = x.as<BroadcastNode>();
  const PrimExpr& scalar = broadcast ? broadcast->value : x;
  if (scalar.as<IntImmNode>() || scalar.as<FloatImmNode>()) return scalar.get();
  return nullptr;
}

bool IsNumeric(DataType dtype) { return dtype.is_integral() || ActsAsFloat(dtype); }

/// Whether the integer constant fits `dtype`.
bool ConstFits(const PrimExpr& x, DataType dtype) {
  const PrimExprNode* scalar = ScalarConst(x);
  if (scalar == nullptr) return false;
  if (dtype.is_bool()) return false;
  const auto* imm = scalar->IsInstance<IntImmNode>() ? static_cast<const IntImmNode*>(scalar) : nullptr;
  if (imm == nullptr) return ActsAsFloat(dtype);
  if (ActsAsFloat(dtype)) return true;
  return WrapInt(dtype, imm->value) == imm->value && !(dtype.is_uint() && imm->value < 0);
}

DataType CommonScalarType(DataType a, DataType b, const char* op_name) {
  if (a == b) return a;
  if (!IsNumeric(a) || !IsNumeric(b)) {
    throw DTypeError(StrCat("operands of ", op_name, " have no common dtype: ", a, " and ", b));
  }
  if (ActsAsFloat(a) && ActsAsFloat(b)) {
    if (a.bits() != b.bits()) return a.bits() > b.bits() ? a : b;
    return DataType::Float(32);
  }
  if (ActsAsFloat(a)) return a;
  if (ActsAsFloat(b)) return b;
  if (a.is_bool()) return b;
  if (b.is_bool()) return a;
  if (a.code() == b.code()) return a.bits() > b.bits() ? a : b;
  DataType sint = a.is_int() ? a : b;
  DataType uint = a.is_int() ? b : a;
  if (sint.bits() > uint.bits()) return sint;
  return DataType::Int(uint.bits() >= 32 ? 64 : uint.bits() * 2);
}

}  // namespace

void MatchTypes(PrimExpr& a, PrimExpr& b, const char* op_name) {
  TREADLE_ICHECK(a.defined() && b.defined()) << "null operand of " << op_name;
  if (const auto* axis = a.as<IterVarNode>()) a = axis->var;
  if (const auto* axis = b.as<IterVarNode>()) b = axis->var;
  if (a.dtype() == b.dtype()) return;
  int lanes = std::max(a.dtype().lanes(), b.dtype().lanes());
  if ((a.dtype().lanes() != lanes && a.dtype().lanes() != 1) ||
      (b.dtype().lanes() != lanes && b.dtype().lanes() != 1)) {
    throw DTypeError(StrCat("operands of ", op_name, " have different lanes: ", a.dtype(), " and ", b.dtype()));
  }
  DataType ta = a.dtype().element_of(), tb = b.dtype().element_of();
  DataType common;
  bool const_a = ScalarConst(a) != nullptr, const_b = ScalarConst(b) != nullptr;
  if (const_b && !const_a && ConstFits(b, ta)) {
    common = ta;
  } else if (const_a && !const_b && ConstFits(a, tb)) {
    common = tb;
  } else {
    common = CommonScalarType(ta, tb, op_name);
  }
  a = cast(common.with_lanes(a.dtype().lanes()), a);
  b = cast(common.with_lanes(b.dtype().lanes()), b);
  if (lanes > 1) {
    a = broadcast(a, lanes);
    b = broadcast(b, lanes);
  }
}

double RoundToDType(DataType dtype, double value) {
  if (dtype.is_float() && dtype.bits() == 64) return value;
  if (dtype.is_float() && dtype.bits() == 32) return static_cast<float>(value);
  if (dtype.is_float() && dtype.bits() == 16) return HalfToFloat(FloatToHalf(value));
  if (dtype.code() == DataType::kBFloat) return BFloat16ToFloat(FloatToBFloat16(value));
  const std::optional<FloatFormat> format = runtime::SmallFloatFormat(dtype);
  return format ? DecodeFloat(*format, EncodeFloat(*format, value)) : value;
}

PrimExpr broadcast(const PrimExpr& x, int lanes) {
  if (x.dtype().lanes() == lanes) return x;
  return Broadcast(x, lanes);
}

PrimExpr make_const(DataType dtype, int64_t value) {
  DataType scalar = dtype.element_of();
  PrimExpr result;
  if (ActsAsFloat(scalar)) {
    result = FloatImm(scalar, RoundToDType(scalar, static_cast<double>(value)));
  } else {
    result = IntImm(scalar, value);
  }
  return broadcast(result, dtype.lanes());
}

PrimExpr make_const(DataType dtype, double value) {
  DataType scalar = dtype.element_of();
  if (ActsAsFloat(scalar)) return broadcast(FloatImm(scalar, RoundToDType(scalar, value)), dtype.lanes());
  if (value != std::trunc(value) || std::abs(value) >= 9223372036854775808.0) {
    throw DTypeError(StrCat("constant ", value, " doesn't fit into ", dtype));
  }
  return make_const(dtype, static_cast<int64_t>(value));
}

PrimExpr make_zero(DataType dtype) {
  if (dtype == DataType::Handle()) return reinterpret(dtype, IntImm(DataType::UInt(64), 0));
  return make_const(dtype, int64_t{0});
}

PrimExpr zero_bits(DataType dtype) {
  const DataType scalar = dtype.element_of();
  if (scalar.is_integral() || (ActsAsFloat(scalar) && scalar.bits() >= 16)) return make_zero(dtype);
  return broadcast(reinterpret(scalar, IntImm(DataType::UInt(scalar.bits()), 0)), dtype.lanes());
}

namespace {

double LargestFinite(DataType dtype) {
  switch (dtype.code()) {
    case DataType::kBFloat:
      return BFloat16ToFloat(0x7f7f);
    case DataType::kFloat8E4M3FN:
      return 448;
    case DataType::kFloat8E5M2:
      return 57344;
    case DataType::kFloat8E4M3FNUZ:
      return 240;
    case DataType::kFloat8E5M2FNUZ:
      return 57344;
    default:
      break;
  }
  if (dtype.bits() == 64) return std::numeric_limits<double>::max();
  if (dtype.bits() == 32) return std::numeric_limits<float>::max();
  return 65504;
}

/// What the function registered for a user's type gives.
PrimExpr LeastCustom(DataType dtype) {
  const std::string name = *runtime::CustomDatatypeName(dtype.code());
  runtime::PackedFunc least = runtime::Registry::Get("tvm.datatype.min." + name);
  if (!least) {
    throw DTypeError(StrCat("the least value of ", dtype,
                            " isn't known: give it with target.datatype.register_min_func(", "..., \"", name, "\")"));
  }
  const PrimExpr value = least(dtype.bits()).As<PrimExpr>();
  if (value.dtype() == dtype) return value;
  throw DTypeError(StrCat("the least value of ", dtype, " is an expression of ", value.dtype()));
}

bool HasInfinity(DataType dtype) {
  return dtype.is_float() || dtype.code() == DataType::kBFloat || dtype.code() == DataType::kFloat8E5M2;
}

}  // namespace

PrimExpr max_value(DataType dtype) {
  DataType scalar = dtype.element_of();
  if (scalar.is_floating()) return broadcast(FloatImm(scalar, LargestFinite(scalar)), dtype.lanes());
  if (!scalar.is_integral()) throw DTypeError(StrCat(dtype, " has no greatest value"));
  // The greatest uint64 is held as the 64-bit pattern, as every uint64 constant is.
  int64_t value = scalar.bits() == 64 ? (scalar.is_uint() ? -1 : std::numeric_limits<int64_t>::max())
                  : scalar.is_uint()  ? (int64_t{1} << scalar.bits()) - 1
                                      : (int64_t{1} << (scalar.bits() - 1)) - 1;
  return make_const(dtype, value);
}

PrimExpr min_value(DataType dtype) {
  DataType scalar = dtype.element_of();
  if (runtime::IsCustomDatatype(scalar)) return broadcast(LeastCustom(scalar), dtype.lanes());
  if (scalar.is_floating()) return broadcast(FloatImm(scalar, -LargestFinite(scalar)), dtype.lanes());
  if (!scalar.is_integral()) throw DTypeError(StrCat(dtype, " has no least value"));
  if (scalar.is_uint()) return make_const(dtype, int64_t{0});
  return make_const(dtype,
                    scalar.bits() == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (scalar.bits() - 1)));
}

PrimExpr infinity(DataType dtype) {
  if (!HasInfinity(dtype.element_of())) return max_value(dtype);
  return broadcast(FloatImm(dtype.element_of(), std::numeric_limits<double>::infinity()), dtype.lanes());
}

PrimExpr neg_infinity(DataType dtype) {
  if (!HasInfinity(dtype.element_of())) return min_value(dtype);
  return broadcast(FloatImm(dtype.element_of(), -std::numeric_limits<double>::infinity()), dtype.lanes());
}

bool is_const_int(const PrimExpr& x) { return x.as<IntImmNode>() != nullptr; }

bool is_const_int(const PrimExpr& x, int64_t value) {
  const PrimExprNode* scalar = ScalarConst(x);
  return scalar && scalar->IsInstance<IntImmNode>() && static_cast<const IntImmNode*>(scalar)->value == value;
}

namespace {
bool IsConstValue(const PrimExpr& x, double value) {
  const PrimExprNode* scalar = ScalarConst(x);
  if (scalar == nullptr) return false;
  if (scalar->IsInstance<IntImmNode>())
    return static_cast<double>(static_cast<const IntImmNode*>(scalar)->value) == value;
  return static_cast<const FloatImmNode*>(scalar)->value == value;
}
}  // namespace

bool is_zero(const PrimExpr& x) { return IsConstValue(x, 0); }
bool is_one(const PrimExpr& x) { return IsConstValue(x, 1); }

int64_t as_int(const PrimExpr& x, const char* what) {
  const int64_t* value = x.defined() ? AsConstInt(x) : nullptr;
  if (value == nullptr) throw Error(StrCat(what, " must be an integer constant"));
  return *value;
}

PrimExpr cast(DataType dtype, const PrimExpr& x) {
  if (x.dtype() == dtype) return x;
  if (x.dtype().is_scalar() && dtype.is_vector()) return broadcast(cast(dtype.element_of(), x), dtype.lanes());
  if (const auto* b = x.as<BroadcastNode>(); b && b->lanes == dtype.lanes()) {
    if (ScalarConst(x)) return broadcast(cast(dtype.element_of(), b->value), dtype.lanes());
  }
  if (PrimExpr folded = FoldCast(dtype, x); folded.defined()) return folded;
  return Cast(dtype, x);
}

PrimExpr reinterpret(DataType dtype, const PrimExpr& x) {
  if (x.dtype() == dtype) return x;
  if (dtype.bits() * dtype.lanes() != x.dtype().bits() * x.dtype().lanes()) {
    throw DTypeError(StrCat("reinterpret of ", x.dtype(), " as ", dtype, ": widths differ"));
  }
  return CallIntrin(dtype, "tir.reinterpret", {x});
}

// ---- Arithmetic ----

namespace {

template <typename Ref, typename Node>
PrimExpr Arithmetic(PrimExpr a, PrimExpr b) {
  MatchTypes(a, b, Node::kSymbol);
  if (PrimExpr folded = FoldBinary<Node>(a, b); folded.defined()) return folded;
  return Ref(std::move(a), std::move(b));
}

void RequireNumeric(const PrimExpr& a, const char* op_name) {
  if (!IsNumeric(a.dtype())) throw DTypeError(StrCat("operand of ", op_name, " has dtype ", a.dtype()));
}

template <typename Ref, typename Node>
PrimExpr Division(PrimExpr a, PrimExpr b) {
  MatchTypes(a, b, Node::kSymbol);
  RequireNumeric(a, Node::kSymbol);
  if (a.dtype().is_integral() && is_const_int(b, 0)) throw Error(StrCat("division by zero in ", Node::kSymbol));
  if (PrimExpr folded = FoldBinary<Node>(a, b); folded.defined()) return folded;
  return Ref(std::move(a), std::move(b));
}

/// Booleans count as integers in arithmetic.
PrimExpr Widen(PrimExpr x) { return x.dtype().is_bool() ? cast(DataType::Int(32, x.dtype().lanes()), x) : x; }

}  // namespace

PrimExpr add(PrimExpr a, PrimExpr b) { return Arithmetic<Add, AddNode>(Widen(std::move(a)), Widen(std::move(b))); }
PrimExpr sub(PrimExpr a, PrimExpr b) { return Arithmetic<Sub, SubNode>(Widen(std::move(a)), Widen(std::move(b))); }
PrimExpr mul(PrimExpr a, PrimExpr b) { return Arithmetic<Mul, MulNode>(Widen(std::move(a)), Widen(std::move(b))); }
PrimExpr div(PrimExpr a, PrimExpr b) { return Division<Div, DivNode>(Widen(std::move(a)), Widen(std::move(b))); }
PrimExpr truncdiv(PrimExpr a, PrimExpr b) { return div(std::move(a), std::move(b)); }
PrimExpr truncmod(PrimExpr a, PrimExpr b) {
  MatchTypes(a, b, "%");
  if (ActsAsFloat(a.dtype())) return fmod(std::move(a), std::move(b));
  return Division<Mod, ModNode>(std::move(a), std::move(b));
}
PrimExpr floordiv(PrimExpr a, PrimExpr b) {
  MatchTypes(a, b, "floordiv");
  if (ActsAsFloat(a.dtype())) return floor(div(std::move(a), std::move(b)));
  return Division<FloorDiv, FloorDivNode>(std::move(a), std::move(b));
}
PrimExpr floormod(PrimExpr a, PrimExpr b) {
  MatchTypes(a, b, "floormod");
  if (ActsAsFloat(a.dtype())) return a - floordiv(a, b) * b;
  return Division<FloorMod, FloorModNode>(std::move(a), std::move(b));
}
PrimExpr ceildiv(PrimExpr a, PrimExpr b) {
  MatchTypes(a, b, "ceildiv");
  return floordiv(a + b - 1, b);
}
PrimExpr indexdiv(PrimExpr a, PrimExpr b) { return floordiv(std::move(a), std::move(b)); }
PrimExpr indexmod(PrimExpr a, PrimExpr b) { return floormod(std::move(a), std::move(b)); }
PrimExpr min(PrimExpr a, PrimExpr b) { return Arithmetic<Min, MinNode>(std::move(a), std::move(b)); }
PrimExpr max(PrimExpr a, PrimExpr b) { return Arithmetic<Max, MaxNode>(std::move(a), std::move(b)); }
PrimExpr equal(PrimExpr a, PrimExpr b) { return Arithmetic<EQ, EQNode>(std::move(a), std::move(b)); }
PrimExpr not_equal(PrimExpr a, PrimExpr b) { return Arithmetic<NE, NENode>(std::move(a), std::move(b)); }
PrimExpr less(PrimExpr a, PrimExpr b) { return Arithmetic<LT, LTNode>(std::move(a), std::move(b)); }
PrimExpr less_equal(PrimExpr a, PrimExpr b) { return Arithmetic<LE, LENode>(std::move(a), std::move(b)); }
PrimExpr greater(PrimExpr a, PrimExpr b) { return Arithmetic<GT, GTNode>(std::move(a), std::move(b)); }
PrimExpr greater_equal(PrimExpr a, PrimExpr b) { return Arithmetic<GE, GENode>(std::move(a), std::move(b)); }

PrimExpr neg(PrimExpr a) {
  a = Widen(std::move(a));
  RequireNumeric(a, "unary -");
  if (ActsAsFloat(a.dtype())) {
    // 0 - x would turn 0 into +0.
    if (const auto* imm = a.as<FloatImmNode>()) return FloatImm(a.dtype(), -imm->value);
    return a * make_const(a.dtype(), int64_t{-1});
  }
  return make_zero(a.dtype()) - a;
}

namespace {

PrimExpr AsBool(PrimExpr x, const char* op_name) {
  if (x.dtype().is_bool()) return x;
  RequireNumeric(x, op_name);
  return not_equal(x, make_zero(x.dtype()));
}

}  // namespace

PrimExpr logical_and(PrimExpr a, PrimExpr b) {
  a = AsBool(std::move(a), "&&");
  b = AsBool(std::move(b), "&&");
  MatchTypes(a, b, "&&");
  if (is_const_int(a, 1) || is_const_int(b, 0)) return b;
  if (is_const_int(b, 1) || is_const_int(a, 0)) return a;
  if (a.same_as(b)) return a;
  return And(std::move(a), std::move(b));
}

PrimExpr logical_or(PrimExpr a, PrimExpr b) {
  a = AsBool(std::move(a), "||");
  b = AsBool(std::move(b), "||");
  MatchTypes(a, b, "||");
  if (is_const_int(a, 0) || is_const_int(b, 1)) return b;
  if (is_const_int(b, 0) || is_const_int(a, 1)) return a;
  if (a.same_as(b)) return a;
  return Or(std::move(a), std::move(b));
}

PrimExpr logical_not(PrimExpr a) {
  a = AsBool(std::move(a), "!");
  if (const auto* imm = a.as<IntImmNode>()) return make_bool(imm->value == 0);
  if (const auto* inner = a.as<NotNode>()) return inner->a;
  return Not(std::move(a));
}

PrimExpr select(PrimExpr condition, PrimExpr true_value, PrimExpr false_value) {
  condition = AsBool(std::move(condition), "select");
  MatchTypes(true_value, false_value, "select");
  if (is_const_int(condition, 1)) return true_value;
  if (is_const_int(condition, 0)) return false_value;
  if (true_value.same_as(false_value)) return true_value;
  int lanes = std::max(condition.dtype().lanes(), true_value.dtype().lanes());
  if (lanes > 1) {
    condition = condition.dtype().is_scalar() ? condition : broadcast(condition, lanes);
    true_value = broadcast(true_value, lanes);
    false_value = broadcast(false_value, lanes);
  }
  return Select(std::move(condition), std::move(true_value), std::move(false_value));
}

PrimExpr if_then_else(PrimExpr condition, PrimExpr true_value, PrimExpr false_value) {
  condition = AsBool(std::move(condition), "if_then_else");
  MatchTypes(true_value, false_value, "if_then_else");
  if (is_const_int(condition, 1)) return true_value;
  if (is_const_int(condition, 0)) return false_value;
  DataType dtype = true_value.dtype();
  return CallIntrin(dtype, "tir.if_then_else", {std::move(condition), std::move(true_value), std::move(false_value)});
}

PrimExpr likely(PrimExpr condition) {
  condition = AsBool(std::move(condition), "likely");
  if (is_const_int(condition)) return condition;
  if (const auto* call = condition.as<CallNode>(); call && IsCallTo(call, "tir.likely")) return condition;
  DataType dtype = condition.dtype();
  return CallIntrin(dtype, "tir.likely", {std::move(condition)});
}

// ---- Bits ----

namespace {

template <typename Fold>
PrimExpr BitOperation(const char* name, PrimExpr a, PrimExpr b, Fold fold) {
  MatchTypes(a, b, name);
  if (!a.dtype().is_integral()) throw DTypeError(StrCat(name, " needs integers, not ", a.dtype()));
  const int64_t* x = AsConstInt(a);
  const int64_t* y = AsConstInt(b);
  if (x && y) {
    std::optional<int64_t> value = fold(*x, *y);
    if (value) return IntImm(a.dtype(), WrapInt(a.dtype(), *value));
  }
  DataType dtype = a.dtype();
  return CallIntrin(dtype, name, {std::move(a), std::move(b)});
}

std::optional<int64_t> ShiftLeft(int64_t x, int64_t y) {
  if (y < 0 || y > 63) return std::nullopt;
  return static_cast<int64_t>(static_cast<uint64_t>(x) << y);
}

}  // namespace

PrimExpr left_shift(PrimExpr a, PrimExpr b) {
  return BitOperation("tir.shift_left", std::move(a), std::move(b), ShiftLeft);
}
PrimExpr right_shift(PrimExpr a, PrimExpr b) {
  bool is_signed = a.dtype().is_int();
  return BitOperation("tir.shift_right", std::move(a), std::move(b),
                      [=](int64_t x, int64_t y) -> std::optional<int64_t> {
                        if (y < 0 || y > 63) return std::nullopt;
                        return is_signed ? x >> y : static_cast<int64_t>(static_cast<uint64_t>(x) >> y);
                      });
}
PrimExpr bitwise_and(PrimExpr a, PrimExpr b) {
  if (a.dtype().is_bool() && b.dtype().is_bool()) return logical_and(std::move(a), std::move(b));
  return BitOperation("tir.bitwise_and", std::move(a), std::move(b),
                      [](int64_t x, int64_t y) -> std::optional<int64_t> { return x & y; });
}
PrimExpr bitwise_or(PrimExpr a, PrimExpr b) {
  if (a.dtype().is_bool() && b.dtype().is_bool()) return logical_or(std::move(a), std::move(b));
  return BitOperation("tir.bitwise_or", std::move(a), std::move(b),
                      [](int64_t x, int64_t y) -> std::optional<int64_t> { return x | y; });
}
PrimExpr bitwise_xor(PrimExpr a, PrimExpr b) {
  if (a.dtype().is_bool() && b.dtype().is_bool()) return not_equal(std::move(a), std::move(b));
  return BitOperation("tir.bitwise_xor", std::move(a), std::move(b),
                      [](int64_t x, int64_t y) -> std::optional<int64_t> { return x ^ y; });
}
PrimExpr bitwise_not(PrimExpr a) {
  if (a.dtype().is_bool()) return logical_not(std::move(a));
  if (!a.dtype().is_integral()) throw DTypeError(StrCat("tir.bitwise_not needs integers, not ", a.dtype()));
  if (const int64_t* x = AsConstInt(a)) return IntImm(a.dtype(), WrapInt(a.dtype(), ~*x));
  DataType dtype = a.dtype();
  return CallIntrin(dtype, "tir.bitwise_not", {std::move(a)});
}
PrimExpr popcount(PrimExpr a) {
  DataType dtype = a.dtype();
  return CallIntrin(dtype, "tir.popcount", {std::move(a)});
}
PrimExpr clz(PrimExpr a) {
  DataType dtype = a.dtype();
  return CallIntrin(dtype, "tir.clz", {std::move(a)});
}

}  // namespace treadle::tir
