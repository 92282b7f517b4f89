// SPDX-License-Identifier: Apache-2.0
// Building scalar expressions: operators and intrinsics that bring operands to one dtype and fold constants.
//
// Named in lower case like the functions of <cmath> they stand for. Promotion: a constant takes the dtype of the other
// operand where it fits; else float beats integer, more bits beat fewer, and of an int and a uint the result is the
// int that is wider than the uint (int64 at most). A scalar is broadcast to the other operand's lanes.
#pragma once

#include <type_traits>

#include "treadle/ir/prim_expr.h"

namespace treadle {
namespace tir {

/// What evaluating a call may do, beyond giving a value.
enum class CallEffect : int {
  kPure = 0,    ///< nothing: equal arguments give equal values; may be moved, shared or removed
  kReads = 1,   ///< reads memory or state: may be removed, not moved across writes
  kOpaque = 2,  ///< anything
};
inline constexpr OpAttrKey<CallEffect> kCallEffect{"TCallEffectKind"};

/// What a call costs beside its operands. Schedules weigh by it whether to compute a value twice.
enum class CallCost : int {
  kCast = 0,         ///< as little as a cast: a choice between operands, a conversion
  kInstruction = 1,  ///< an arithmetic instruction or a few
  kFunction = 2,     ///< more, or unknown
};
inline constexpr OpAttrKey<CallCost> kCallCost{"TCallCost"};

/// Registers the intrinsics ("tir.exp", ...). Idempotent.
void RegisterTirOps();
/// The effect of a call: calls of functions of the module are opaque.
CallEffect EffectOf(const CallNode* call);
/// The cost of a call: that of functions of the module is unknown.
CallCost CostOf(const CallNode* call);
/// Whether `expr` only computes: no reads of memory that a store could change (buffer loads count as reads).
bool IsPure(const PrimExpr& expr);
/// Whether evaluating `expr` has no side effect (reads are allowed).
bool HasNoSideEffect(const PrimExpr& expr);
/// Whether `call` calls the intrinsic of that name, such as "tir.if_then_else".
bool IsCallTo(const CallNode* call, const char* name);

/// Constants of any scalar or vector dtype; `value` is rounded (float) or must fit (integers).
PrimExpr make_const(DataType dtype, double value);
PrimExpr make_const(DataType dtype, int64_t value);
inline PrimExpr make_const(DataType dtype, int value) { return make_const(dtype, static_cast<int64_t>(value)); }
PrimExpr make_zero(DataType dtype);
/// A value whose bits are all 0, as masked loads leave in the lanes they don't read. Unlike `make_zero` for every type
/// that is stored, also those without a zero (float8_e8m0fnu) or without arithmetic (float4_e2m1fn).
PrimExpr zero_bits(DataType dtype);
inline PrimExpr make_bool(bool value, int lanes = 1) { return make_const(DataType::Bool(lanes), int64_t{value}); }
/// Least and greatest finite value; of floats lowest() and max().
PrimExpr min_value(DataType dtype);
PrimExpr max_value(DataType dtype);
/// Of floats: infinity (formats without one: their greatest value); of integers the extreme value.
PrimExpr infinity(DataType dtype);
PrimExpr neg_infinity(DataType dtype);
/// `value` rounded to the floating-point `dtype`, as a double.
double RoundToDType(DataType dtype, double value);

bool is_const_int(const PrimExpr& x);
/// Integer constant (scalar, or broadcast of one) of this value.
bool is_const_int(const PrimExpr& x, int64_t value);
/// Constant of any numeric dtype (or broadcast of one) equal to zero / one.
bool is_zero(const PrimExpr& x);
bool is_one(const PrimExpr& x);
/// Value of an integer constant; throws Error that names `what` otherwise.
int64_t as_int(const PrimExpr& x, const char* what);

/// The operands brought to one dtype and one number of lanes; DTypeError where there is none.
void MatchTypes(PrimExpr& a, PrimExpr& b, const char* op_name);

/// Conversion; constants are folded (float to int truncates and saturates; int to int wraps).
PrimExpr cast(DataType dtype, const PrimExpr& x);
/// The same bits as another dtype of equal width.
PrimExpr reinterpret(DataType dtype, const PrimExpr& x);
PrimExpr broadcast(const PrimExpr& x, int lanes);

PrimExpr add(PrimExpr a, PrimExpr b);
PrimExpr sub(PrimExpr a, PrimExpr b);
PrimExpr mul(PrimExpr a, PrimExpr b);
/// Truncating on integers. A constant zero divisor of integers throws Error.
PrimExpr div(PrimExpr a, PrimExpr b);
PrimExpr truncdiv(PrimExpr a, PrimExpr b);
PrimExpr truncmod(PrimExpr a, PrimExpr b);
PrimExpr floordiv(PrimExpr a, PrimExpr b);
PrimExpr floormod(PrimExpr a, PrimExpr b);
/// ceil(a / b) for integers, b > 0.
PrimExpr ceildiv(PrimExpr a, PrimExpr b);
PrimExpr indexdiv(PrimExpr a, PrimExpr b);  ///< floordiv of non-negative index expressions
PrimExpr indexmod(PrimExpr a, PrimExpr b);
PrimExpr min(PrimExpr a, PrimExpr b);
PrimExpr max(PrimExpr a, PrimExpr b);
PrimExpr neg(PrimExpr a);
PrimExpr equal(PrimExpr a, PrimExpr b);
PrimExpr not_equal(PrimExpr a, PrimExpr b);
PrimExpr less(PrimExpr a, PrimExpr b);
PrimExpr less_equal(PrimExpr a, PrimExpr b);
PrimExpr greater(PrimExpr a, PrimExpr b);
PrimExpr greater_equal(PrimExpr a, PrimExpr b);
PrimExpr logical_and(PrimExpr a, PrimExpr b);
PrimExpr logical_or(PrimExpr a, PrimExpr b);
PrimExpr logical_not(PrimExpr a);
/// Both values are computed.
PrimExpr select(PrimExpr condition, PrimExpr true_value, PrimExpr false_value);
/// Only the value that is asked for is computed.
PrimExpr if_then_else(PrimExpr condition, PrimExpr true_value, PrimExpr false_value);
/// A condition that nearly always holds: lowering splits loops by it.
PrimExpr likely(PrimExpr condition);

PrimExpr left_shift(PrimExpr a, PrimExpr b);
PrimExpr right_shift(PrimExpr a, PrimExpr b);  ///< arithmetic on int, logical on uint
PrimExpr bitwise_and(PrimExpr a, PrimExpr b);
PrimExpr bitwise_or(PrimExpr a, PrimExpr b);
PrimExpr bitwise_xor(PrimExpr a, PrimExpr b);
PrimExpr bitwise_not(PrimExpr a);
PrimExpr popcount(PrimExpr a);
PrimExpr clz(PrimExpr a);
// clang-format off
/// Floating-point functions of one argument; an integer argument is first cast to float32. Constants are folded
/// where the host's function rounds the same way (float32 and float64).
#define TREADLE_TIR_UNARY_MATH(X)                                                                                  \
  X(exp)                                                                                                           \
  X(exp2)                                                                                                          \
  X(exp10) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sqrt) X(rsqrt) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) \
      X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(erf) X(sigmoid)
#define TREADLE_TIR_ROUNDING(X) X(floor) X(ceil) X(trunc) X(round) X(nearbyint)
#define TREADLE_DECLARE_UNARY(name) PrimExpr name(PrimExpr x);
TREADLE_TIR_UNARY_MATH(TREADLE_DECLARE_UNARY)
TREADLE_TIR_ROUNDING(TREADLE_DECLARE_UNARY)  ///< integers are returned as they are; round: halves away from zero
#undef TREADLE_DECLARE_UNARY
PrimExpr abs(PrimExpr x);   ///< of any dtype
PrimExpr fabs(PrimExpr x);  ///< same as abs
PrimExpr isnan(PrimExpr x);
PrimExpr isinf(PrimExpr x);
PrimExpr isfinite(PrimExpr x);
PrimExpr pow(PrimExpr x, PrimExpr y);
PrimExpr fmod(PrimExpr x, PrimExpr y);
PrimExpr atan2(PrimExpr y, PrimExpr x);
PrimExpr hypot(PrimExpr x, PrimExpr y);
PrimExpr copysign(PrimExpr x, PrimExpr y);
PrimExpr nextafter(PrimExpr x, PrimExpr y);
PrimExpr fma(PrimExpr a, PrimExpr b, PrimExpr c);
// clang-format on
/// A call of a registered intrinsic.
Call CallIntrin(DataType dtype, const std::string& name, Array<PrimExpr> args);
/// A call of the C function `name`, linked statically.
Call CallExtern(DataType dtype, const std::string& name, Array<PrimExpr> args);
/// A call of the pure C function `name`.
Call CallPureExtern(DataType dtype, const std::string& name, Array<PrimExpr> args);
/// A call of the registered packed function `name`.
Call CallPacked(DataType dtype, const std::string& name, Array<PrimExpr> args);
/// Pointer to an element of the buffer.
PrimExpr AddressOf(const BufferLoad& element);
/// Returns `value` from the function.
PrimExpr ReturnValue(PrimExpr value);

/// A constant for use next to an operand of `dtype`: integers take it, fractions make integers float32.
template <typename T>
PrimExpr ConstLike(DataType dtype, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return make_const(dtype.is_floating() ? dtype : DataType::Float(32, dtype.lanes()), static_cast<double>(value));
  } else {
    return make_const(dtype.is_bool() ? DataType::Int(32, dtype.lanes()) : dtype, static_cast<int64_t>(value));
  }
}

}  // namespace tir

// Operators. There is none for equality: identity is same_as(), the expression is tir::equal().
#define TREADLE_PRIM_OPERATOR(op, function)                                                         \
  inline PrimExpr operator op(const PrimExpr& a, const PrimExpr& b) { return tir::function(a, b); } \
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>                       \
  PrimExpr operator op(const PrimExpr& a, T b) {                                                    \
    return tir::function(a, tir::ConstLike(a.dtype(), b));                                          \
  }                                                                                                 \
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>                       \
  PrimExpr operator op(T a, const PrimExpr& b) {                                                    \
    return tir::function(tir::ConstLike(b.dtype(), a), b);                                          \
  }
TREADLE_PRIM_OPERATOR(+, add)
TREADLE_PRIM_OPERATOR(-, sub)
TREADLE_PRIM_OPERATOR(*, mul)
TREADLE_PRIM_OPERATOR(/, div)
TREADLE_PRIM_OPERATOR(%, truncmod)
TREADLE_PRIM_OPERATOR(<, less)
TREADLE_PRIM_OPERATOR(<=, less_equal)
TREADLE_PRIM_OPERATOR(>, greater)
TREADLE_PRIM_OPERATOR(>=, greater_equal)
TREADLE_PRIM_OPERATOR(<<, left_shift)
TREADLE_PRIM_OPERATOR(>>, right_shift)
TREADLE_PRIM_OPERATOR(&, bitwise_and)
TREADLE_PRIM_OPERATOR(|, bitwise_or)
TREADLE_PRIM_OPERATOR(^, bitwise_xor)
#undef TREADLE_PRIM_OPERATOR
inline PrimExpr operator&&(const PrimExpr& a, const PrimExpr& b) { return tir::logical_and(a, b); }
inline PrimExpr operator||(const PrimExpr& a, const PrimExpr& b) { return tir::logical_or(a, b); }
inline PrimExpr operator!(const PrimExpr& a) { return tir::logical_not(a); }
inline PrimExpr operator-(const PrimExpr& a) { return tir::neg(a); }
inline PrimExpr operator~(const PrimExpr& a) { return tir::bitwise_not(a); }
inline PrimExpr& operator+=(PrimExpr& a, const PrimExpr& b) { return a = tir::add(a, b); }
inline PrimExpr& operator*=(PrimExpr& a, const PrimExpr& b) { return a = tir::mul(a, b); }

}  // namespace treadle
