// SPDX-License-Identifier: Apache-2.0
// Folding of constants and neutral elements, for the expression builders and the simplifier.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "treadle/base/int_math.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/runtime/custom_datatype.h"

namespace treadle::tir {

/// `value` reduced to the width of the integer `dtype`: what the machine's wrapping arithmetic leaves.
inline int64_t WrapInt(DataType dtype, int64_t value) {
  int bits = dtype.bits();
  if (bits >= 64) return value;
  if (dtype.is_bool()) return value != 0;
  uint64_t mask = (uint64_t{1} << bits) - 1;
  uint64_t low = static_cast<uint64_t>(value) & mask;
  if (dtype.is_uint()) return static_cast<int64_t>(low);
  uint64_t sign = uint64_t{1} << (bits - 1);
  return static_cast<int64_t>((low ^ sign) - sign);
}

/// The constant that casting the constant `x` gives, or null.
PrimExpr FoldCast(DataType dtype, const PrimExpr& x);

namespace detail {
/// Of constants of one integer dtype; false where the operation isn't foldable (overflow of 64 bits, zero divisor).
template <typename Node>
bool FoldInts(DataType dtype, int64_t a, int64_t b, int64_t* out) {
  bool wide_unsigned = dtype.is_uint() && dtype.bits() == 64;
  if constexpr (std::is_same_v<Node, AddNode>) {
    *out = static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else if constexpr (std::is_same_v<Node, SubNode>) {
    *out = static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  } else if constexpr (std::is_same_v<Node, MulNode>) {
    *out = static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else if constexpr (std::is_same_v<Node, DivNode> || std::is_same_v<Node, ModNode> ||
                       std::is_same_v<Node, FloorDivNode> || std::is_same_v<Node, FloorModNode>) {
    if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return false;
    constexpr bool kIsDiv = std::is_same_v<Node, DivNode> || std::is_same_v<Node, FloorDivNode>;
    constexpr bool kIsFloor = std::is_same_v<Node, FloorDivNode> || std::is_same_v<Node, FloorModNode>;
    if (wide_unsigned) {
      auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
      *out = static_cast<int64_t>(kIsDiv ? x / y : x % y);
    } else if constexpr (kIsFloor) {
      *out = kIsDiv ? FloorDivInt(a, b) : FloorModInt(a, b);
    } else {
      *out = kIsDiv ? a / b : a % b;
    }
  } else if constexpr (std::is_same_v<Node, MinNode>) {
    bool first = wide_unsigned ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
    *out = first ? a : b;
  } else if constexpr (std::is_same_v<Node, MaxNode>) {
    bool first = wide_unsigned ? static_cast<uint64_t>(a) > static_cast<uint64_t>(b) : a > b;
    *out = first ? a : b;
  } else {
    return false;
  }
  *out = WrapInt(dtype, *out);
  return true;
}

template <typename Node, typename T>
bool FoldCompare(T a, T b, bool* out) {
  if constexpr (std::is_same_v<Node, EQNode>)
    *out = a == b;
  else if constexpr (std::is_same_v<Node, NENode>)
    *out = a != b;
  else if constexpr (std::is_same_v<Node, LTNode>)
    *out = a < b;
  else if constexpr (std::is_same_v<Node, LENode>)
    *out = a <= b;
  else if constexpr (std::is_same_v<Node, GTNode>)
    *out = a > b;
  else if constexpr (std::is_same_v<Node, GENode>)
    *out = a >= b;
  else
    return false;
  return true;
}

template <typename Node>
bool FoldFloats(double a, double b, double* out) {
  if constexpr (std::is_same_v<Node, AddNode>)
    *out = a + b;
  else if constexpr (std::is_same_v<Node, SubNode>)
    *out = a - b;
  else if constexpr (std::is_same_v<Node, MulNode>)
    *out = a * b;
  else if constexpr (std::is_same_v<Node, DivNode>)
    *out = a / b;
  else if constexpr (std::is_same_v<Node, MinNode>)
    *out = std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
  else if constexpr (std::is_same_v<Node, MaxNode>)
    *out = std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
  else
    return false;
  return true;
}

/// x+0, x*1, ... Floats keep their signed zeros and NaNs.
template <typename Node>
PrimExpr FoldNeutral(const PrimExpr& a, const PrimExpr& b) {
  bool integral = a.dtype().is_integral();
  if constexpr (std::is_same_v<Node, AddNode>) {
    if (integral && is_const_int(a, 0)) return b;
    if (integral && is_const_int(b, 0)) return a;
  } else if constexpr (std::is_same_v<Node, SubNode>) {
    if (integral && is_const_int(b, 0)) return a;
  } else if constexpr (std::is_same_v<Node, MulNode>) {
    if (is_one(a)) return b;
    if (is_one(b)) return a;
    if (integral && is_const_int(a, 0)) return a;
    if (integral && is_const_int(b, 0)) return b;
  } else if constexpr (std::is_same_v<Node, DivNode> || std::is_same_v<Node, FloorDivNode>) {
    if (is_one(b)) return a;
    if (integral && is_const_int(a, 0) && is_const_int(b)) return a;
  } else if constexpr (std::is_same_v<Node, ModNode> || std::is_same_v<Node, FloorModNode>) {
    if (is_const_int(b, 1)) return make_zero(a.dtype());
  } else if constexpr (std::is_same_v<Node, MinNode> || std::is_same_v<Node, MaxNode>) {
    if (a.same_as(b)) return a;
  }
  return PrimExpr();
}
}  // namespace detail

/// What `Node` over operands of one dtype folds to, or null.
template <typename Node>
PrimExpr FoldBinary(const PrimExpr& a, const PrimExpr& b) {
  const auto* x = a.as<IntImmNode>();
  const auto* y = b.as<IntImmNode>();
  if (x && y) {
    bool truth;
    if (a.dtype().is_uint() && a.dtype().bits() == 64
            ? detail::FoldCompare<Node>(static_cast<uint64_t>(x->value), static_cast<uint64_t>(y->value), &truth)
            : detail::FoldCompare<Node>(x->value, y->value, &truth)) {
      return make_bool(truth);
    }
    int64_t value;
    if (detail::FoldInts<Node>(a.dtype(), x->value, y->value, &value)) return IntImm(a.dtype(), value);
  }
  const auto* u = a.as<FloatImmNode>();
  const auto* v = b.as<FloatImmNode>();
  if (u && v && !runtime::IsCustomDatatype(a.dtype())) {
    bool truth;
    if (detail::FoldCompare<Node>(u->value, v->value, &truth)) return make_bool(truth);
    double value;
    if (detail::FoldFloats<Node>(u->value, v->value, &value)) {
      return FloatImm(a.dtype(), RoundToDType(a.dtype(), value));
    }
  }
  return detail::FoldNeutral<Node>(a, b);
}

}  // namespace treadle::tir
