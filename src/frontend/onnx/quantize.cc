// SPDX-License-Identifier: Apache-2.0
// Quantised numbers: conversions, and products of integers. Products are exact in int32, as the standard wants.
#include <algorithm>
#include <utility>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/compose.h"
#include "frontend/onnx/conv_any_weights.h"
#include "frontend/onnx/matmul.h"
#include "frontend/onnx/narrow_types.h"
#include "frontend/onnx/rules.h"
#include "frontend/onnx/symbolic_dims.h"
#include "frontend/onnx/window.h"
#include "treadle/base/checked_math.h"
#include "treadle/ir/structural.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

/// Whether a scale or zero point is known to be one number.
bool IsOneElement(const Expr& value) {
  if (RankOf(value) == 0) return true;
  const int64_t* size = AsConstInt(TypeOf(value)->shape[0]);
  return RankOf(value) == 1 && size != nullptr && *size == 1;
}

/// Scale or zero point, shaped so that it broadcasts to the operand: one number, one per element of `axis`,
/// or (with `block` > 0) one per `block` elements of it.
Expr Spread(NodeImport& n, const Expr& value, const Expr& operand, int64_t axis, int64_t block) {
  const Array<PrimExpr>& shape = TypeOf(operand)->shape;
  int rank = static_cast<int>(shape.size());
  if (IsOneElement(value)) return RankOf(value) == 0 ? value : n.Reshape(value, {});
  if (block == 0 && RankOf(value) == 1 && AsConstInt(TypeOf(value)->shape[0]) == nullptr && axis >= rank) {
    return n.Reshape(value, {});  // there is no such axis: one number, which is checked when it runs
  }
  int at = n.Axis(axis, rank);
  if (block == 0) {
    if (RankOf(value) != 1) n.Invalid(StrCat("scale or zero point has rank ", RankOf(value)));
    const Term given = OneOrSize(Term(n, value), 0, Term(n, operand), at, "number of scales or zero points");
    return n.ExpandDims(given, 1, rank - 1 - at);
  }
  if (RankOf(value) != rank) n.Invalid("blocked scales have to have the operand's rank");
  Expr repeated = n.Call("repeat", {value}, {{"repeats", block}, {"axis", int64_t{at}}});
  const int64_t* size = AsConstInt(shape[static_cast<size_t>(at)]);
  const int64_t* blocks = AsConstInt(TypeOf(value)->shape[static_cast<size_t>(at)]);
  if (size == nullptr || blocks == nullptr) {
    const Term x(n, operand), total = DimOf(x, at);
    const Term wanted = FloorDiv(total + static_cast<double>(block - 1), static_cast<double>(block));
    const Term have = EqualTo(DimOf(Term(n, value), at), wanted, "number of blocks");
    // The check's result is part of the size, so that it isn't left out.
    const Term cut = SliceAxis(Term(n, repeated), at, IntNum(n, 0), total + (have - wanted));
    Array<PrimExpr> dims;
    for (int d = 0; d < rank; ++d) dims.push_back(d == at ? shape[static_cast<size_t>(d)] : AnyDim());
    return WithDims(n, cut, dims);
  }
  int64_t have = *blocks * block;
  if (have < *size || have - *size >= block) n.Invalid(StrCat("'block_size' ", block, " doesn't fit the scales"));
  return have == *size ? repeated : n.Slice(repeated, at, 0, *size);
}

/// Scale and zero point at inputs `scale` and `scale` + 1, of numbers of type `stored`: floats, and as many numbers of
/// that type, or a number each.
void CheckParameters(NodeImport& n, size_t scale, DataType stored) {
  const DataType type = n.DType(scale);
  if (!type.is_floating()) n.Invalid(StrCat("the scale (input ", scale, ") is ", type, ", expected a float"));
  if (!n.Has(scale + 1)) return;
  if (n.StatedDType(scale + 1) != stored) {
    n.Invalid(StrCat("the zero point (input ", scale + 1, ") is ", n.StatedDType(scale + 1), ", expected ", stored));
  }
  const Expr &given = n.In(scale), &zero = n.In(scale + 1);
  const Array<PrimExpr>&s = TypeOf(given)->shape, &z = TypeOf(zero)->shape;
  bool same = s.size() == z.size();
  for (size_t i = 0; same && i < s.size(); ++i) {
    const int64_t *a = AsConstInt(s[i]), *b = AsConstInt(z[i]);
    same = a == nullptr || b == nullptr || *a == *b;
  }
  // One number may be a scalar or a vector, whose size may be one that only the run knows.
  auto may_be_one = [](const Expr& value) {
    return IsOneElement(value) || (RankOf(value) == 1 && AsConstInt(TypeOf(value)->shape[0]) == nullptr);
  };
  if (!same && !(may_be_one(given) && may_be_one(zero))) {
    n.Invalid(StrCat("scale (input ", scale, ") and zero point differ in shape"));
  }
}

/// Inputs `scale` and `scale` + 1, of one size: where only the run knows it, it is checked then. The second is null
/// where it is left out.
std::pair<Expr, Expr> Parameters(NodeImport& n, size_t scale) {
  const Expr& given = n.In(scale);
  if (!n.Has(scale + 1)) return {given, Expr()};
  const Expr& zero = n.In(scale + 1);
  if (IsOneElement(given)) return {given, IsOneElement(zero) ? zero : n.Reshape(zero, {1})};
  if (IsOneElement(zero)) return {n.Reshape(given, {1}), zero};
  bool same = true;
  Array<PrimExpr> hints;
  for (int d = 0; d < RankOf(given); ++d) {
    const PrimExpr &a = TypeOf(given)->shape[static_cast<size_t>(d)], &b = TypeOf(zero)->shape[static_cast<size_t>(d)];
    const PrimExpr& stated = AsConstInt(a) != nullptr ? a : b;
    same = same && !IsAnyDim(a) && !IsAnyDim(b) && StructuralEqual(a, b);
    hints.push_back(AsConstInt(stated) != nullptr && *AsConstInt(stated) > 0 ? stated : PrimExpr(int64_t{-1}));
  }
  if (same) return {given, zero};
  // The one whose size isn't known: a reshape to the size that is known would be left out, and the check with it.
  auto checked = [&](const Expr& x, const Expr& other, const char* what) {
    const Term shape = EqualTo(ShapeOf(Term(n, x)), ShapeOf(Term(n, other)), what);
    return n.Call("dyn.reshape", {x, shape}, {{"newshape", ObjectRef(hints)}, {"allowzero", true}});
  };
  if (IsStatic(TypeOf(zero))) return {checked(given, zero, "size of the scale beside the zero point's"), zero};
  return {given, checked(zero, given, "size of the zero point beside the scale's")};
}

/// The scale at input `i`; where only the run knows its size, that has to be the size of the zero point at `i` + 1.
Expr ScaleBesideZeroPoint(NodeImport& n, size_t i) {
  const Expr& scale = n.In(i);
  if (!n.Has(i + 1) || RankOf(scale) != 1 || n.Rank(i + 1) != 1) return scale;
  const PrimExpr &a = TypeOf(scale)->shape[0], &b = TypeOf(n.In(i + 1))->shape[0];
  if (!IsAnyDim(a) && !IsAnyDim(b) && StructuralEqual(a, b)) return scale;
  const Term shape =
      EqualTo(ShapeOf(Term(n, scale)), ShapeOf(In(n, i + 1)), "size of the scale beside the zero point's");
  const PrimExpr& stated = AsConstInt(a) != nullptr ? a : b;
  const Array<PrimExpr> hints{AsConstInt(stated) != nullptr && *AsConstInt(stated) > 0 ? stated
                                                                                       : PrimExpr(int64_t{-1})};
  return n.Call("dyn.reshape", {scale, shape}, {{"newshape", ObjectRef(hints)}, {"allowzero", true}});
}

/// Rounds half to even, adds the zero point and saturates to the integer type.
Expr Saturate(NodeImport& n, const Expr& scaled, const Expr& zero_point, DataType dtype) {
  if (!dtype.is_integral() || dtype.bits() > 16) n.Unsupported(StrCat("quantisation to ", dtype, " isn't implemented"));
  DataType real = TypeOf(scaled)->dtype;
  Expr rounded = n.Call("round", {scaled});
  if (zero_point.defined()) rounded = n.Call("add", {rounded, n.Cast(zero_point, real)});
  double low = dtype.is_uint() ? 0 : -static_cast<double>(int64_t{1} << (dtype.bits() - 1));
  double high = static_cast<double>(int64_t{1} << (dtype.is_uint() ? dtype.bits() : dtype.bits() - 1)) - 1;
  return n.Cast(n.Call("clip", {rounded}, {{"a_min", low}, {"a_max", high}}), dtype);
}

/// A scale or zero point as qnn.* operators take it: rank 0 where it has one element.
Expr Parameter(NodeImport& n, const Expr& value) {
  return RankOf(value) == 1 && IsOneElement(value) ? n.Reshape(value, {}) : value;
}

Expr ZeroPoint(NodeImport& n, size_t i, DataType otherwise) {
  return n.Has(i) ? Parameter(n, n.In(i)) : n.Scalar(otherwise, 0);
}

/// The dimension of input 0 that its scales (input 1) run along; 0 where there is one scale.
int64_t ParameterAxis(NodeImport& n, int64_t axis) {
  const bool one = n.Rank(1) == 0 || n.StaticDim(n.In(1), 0) == 1 || n.Rank(0) == 1;
  return one ? 0 : n.Axis(axis, n.Rank(0));
}

/// Whether scale and zero point of input `i` (inputs i + 1, i + 2) are such that qnn.* operators take them: float32, of
/// one number or one for each element of a dimension.
bool IsPlainQuantised(NodeImport& n, size_t i, int64_t block) {
  auto counted = [&](size_t k) {
    return !n.Has(k) || n.Rank(k) == 0 || (n.Rank(k) == 1 && AsConstInt(TypeOf(n.In(k))->shape[0]) != nullptr);
  };
  return block == 0 && n.DType(i + 1) == DataType::Float(32) && counted(i + 1) && counted(i + 2);
}

Expr ImportQuantizeLinear(NodeImport& n) {
  n.AllowSubByte();
  const bool saturate = n.Flag("saturate", true);
  int64_t axis = n.Int("axis", 1);
  int64_t block = n.Int("block_size", 0);
  if (block < 0 || block > INT32_MAX) n.Invalid(StrCat("'block_size' is ", block));
  int64_t precision = n.Int("precision", 0);
  if (precision != 0 && precision != static_cast<int64_t>(ElemType::kFloat)) {
    n.Unsupported("'precision' other than float isn't implemented");
  }
  DataType dtype = DataType::UInt(8);
  if (n.Has(2)) {
    dtype = n.StatedDType(2);
  } else if (n.Int("output_dtype", 0) != 0) {
    dtype = StoredType(static_cast<ElemType>(n.Int("output_dtype")), "'output_dtype'");
  }
  n.Ignore({"output_dtype"});
  if (!n.DType(0).is_floating() && n.DType(0) != DataType::Int(32)) {
    n.Invalid(StrCat("the operand is ", n.DType(0), ", expected a float or int32"));
  }
  if (dtype.is_floating() && !dtype.is_float8() && dtype.bits() > 8) {
    n.Invalid(StrCat("quantisation to ", dtype, ", expected an integer or a float of 8 bits or less"));
  }
  CheckParameters(n, 1, dtype);
  if (IsPlainQuantised(n, 0, block) && n.DType(0) == DataType::Float(32) && dtype.is_integral() &&
      (dtype.bits() == 8 || dtype.bits() == 16)) {
    return n.Call("qnn.quantize", {n.In(0), Parameter(n, n.In(1)), ZeroPoint(n, 2, dtype)},
                  {{"axis", ParameterAxis(n, axis)}, {"out_dtype", dtype}});
  }
  // In float32, and in the precision of the scale where that is larger.
  DataType real = n.DType(1) == DataType::Float(64) ? n.DType(1) : DataType::Float(32);
  const auto [given, zero] = Parameters(n, 1);
  Expr scale = n.Cast(Spread(n, given, n.In(0), axis, block), real);
  Expr zero_point = n.Has(2) ? Spread(n, zero, n.In(0), axis, block) : Expr();
  Expr scaled = n.Call("divide", {n.Cast(n.In(0), real), scale});
  if (dtype.is_integral()) return Saturate(n, scaled, zero_point, dtype);
  if (zero_point.defined()) scaled = n.Call("add", {scaled, n.Cast(ConvertTo(n, zero_point, real), real)});
  return ConvertTo(n, scaled, dtype, {saturate, "up"});
}

Expr ImportDequantizeLinear(NodeImport& n) {
  n.AllowSubByte();
  int64_t axis = n.Int("axis", 1);
  int64_t block = n.Int("block_size", 0);
  if (block < 0 || block > INT32_MAX) n.Invalid(StrCat("'block_size' is ", block));
  DataType dtype = n.Int("output_dtype", 0) != 0 ? n.TypeAttr("output_dtype") : n.DType(1);
  if (n.DType(0).is_floating() && n.DType(0).bits() > 8) {
    n.Invalid(StrCat("the operand is ", n.DType(0), ", expected an integer or a float of 8 bits or less"));
  }
  CheckParameters(n, 1, n.StatedDType(0));
  if (n.DType(0).is_integral() && IsPlainQuantised(n, 0, block) && dtype == DataType::Float(32)) {
    return n.Call("qnn.dequantize", {n.In(0), Parameter(n, n.In(1)), ZeroPoint(n, 2, n.DType(0))},
                  {{"axis", ParameterAxis(n, axis)}});
  }
  DataType real = n.DType(1) == DataType::Float(64) ? n.DType(1) : DataType::Float(32);
  const DataType exact = n.DType(0).is_integral() ? DataType::Int(32) : real;
  const auto [given, zero] = Parameters(n, 1);
  Expr x = ConvertTo(n, n.In(0), exact);
  if (n.Has(2)) x = n.Call("subtract", {x, ConvertTo(n, Spread(n, zero, n.In(0), axis, block), exact)});
  Expr scale = n.Cast(Spread(n, given, n.In(0), axis, block), real);
  return n.Cast(n.Call("multiply", {n.Cast(x, real), scale}), dtype);
}

/// x / scale rounded, plus the zero point, to uint8, where no quotient is beyond -256 and 256. Quotients by a scale
/// within bounds (qnn.contrib_divide_by_scale) need no division: both are multiplied by a power of two that brings it
/// there. A scale that isn't finite makes everything 0 or NaN.
Expr QuantizedByOwnRange(NodeImport& n, const Term& x, const Term& scale, const Expr& zero_point) {
  constexpr double kBound = 0x1p60, kLarger = 0x1p100, kSmaller = 0x1p-60, kMost = 512;
  const Term one = scale.Number(1), none = scale.Number(0);
  const Term finite = scale <= static_cast<double>(std::numeric_limits<float>::max());
  const Term within = (scale < 1 / kBound).Select(scale.Number(kLarger), one);
  const Term factor = finite.Select((scale > kBound).Select(scale.Number(kSmaller), within), none);
  const Term divisor = finite.Select(scale * factor, one);
  const Term quotients = (x * factor).Op("qnn.contrib_divide_by_scale", divisor);
  const Expr rounded = n.Call("qnn.contrib_round_clamp", {quotients, scale.Number(-kMost), scale.Number(kMost)});
  const Expr sums = n.Call("add", {rounded, n.Cast(zero_point, DataType::Int(32))});
  return n.Cast(n.Call("clip", {sums}, {{"a_min", 0.0}, {"a_max", 255.0}}), DataType::UInt(8));
}

/// To uint8, with scale and zero point from the operand's range (which is made to hold 0).
std::vector<Expr> ImportDynamicQuantizeLinear(NodeImport& n) {
  Expr x = n.In(0);
  DataType real = n.DType(0);
  if (real != DataType::Float(32)) n.Invalid(StrCat("the operand is ", real, ", expected float32"));
  Expr zero = n.Scalar(real, 0);
  Ints axes;
  for (int i = 0; i < n.Rank(0); ++i) axes.push_back(i);
  AttrList all{{"axis", axes}, {"keepdims", false}};
  Expr high = n.Call("maximum", {n.Call("max", {x}, all), zero});
  Expr low = n.Call("minimum", {n.Call("min", {x}, all), zero});
  Expr scale = n.Call("divide", {n.Call("subtract", {high, low}), n.Scalar(real, 255)});
  // Of zeros alone: the standard divides by 0, ONNX Runtime takes 1.
  scale = n.Call("where", {n.Call("equal", {scale, zero}), n.Scalar(real, 1), scale});
  Expr zero_point = Saturate(n, n.Call("divide", {n.Call("negative", {low}), scale}), Expr(), DataType::UInt(8));
  return {QuantizedByOwnRange(n, Term(n, x), Term(n, scale), zero_point), scale, zero_point};
}

/// Scales or zero points (input `i`) of a matrix, which are one per row, or per column, where they have rank 2 and
/// more: there is one along the dimension that a product sums over.
void CheckSummed(NodeImport& n, size_t i, bool per_column) {
  const Array<PrimExpr>& shape = TypeOf(n.In(i))->shape;
  if (shape.size() < 2) return;
  const int64_t* size = AsConstInt(shape[per_column ? shape.size() - 2 : shape.size() - 1]);
  if (size == nullptr || *size == 1) return;
  n.Invalid(StrCat("scales or zero points (input ", i, ") differ along the dimension that is summed over"));
}

/// `operand`, input `i`, as int32 without its zero point, input `zero_point`: one number, or one per element of
/// dimension `axis`.
Expr Centered(NodeImport& n, const Expr& operand, size_t i, size_t zero_point, int axis) {
  if (n.DType(i).bits() > 8 || !n.DType(i).is_integral()) n.Unsupported(StrCat("operands of type ", n.DType(i)));
  Expr x = n.Cast(operand, DataType::Int(32));
  if (!n.Has(zero_point)) return x;
  CheckSummed(n, zero_point, axis == n.Rank(i) - 1);
  Expr value = n.Cast(n.In(zero_point), DataType::Int(32));
  int rank = n.Rank(i);
  // Higher ranks are those of the operand already, with 1 where they broadcast.
  if (RankOf(value) <= 1) value = Spread(n, value, x, axis, 0);
  if (RankOf(value) > rank) n.Invalid("a zero point has a higher rank than its operand");
  return n.Call("subtract", {x, value});
}

Expr Centered(NodeImport& n, size_t i, size_t zero_point, int axis) {
  return Centered(n, n.In(i), i, zero_point, axis);
}

void CheckZeroPoint(NodeImport& n, size_t i, size_t zero_point) {
  if (!n.Has(zero_point) || n.DType(zero_point) == n.DType(i)) return;
  n.Invalid(StrCat("the zero point (input ", zero_point, ") is ", n.DType(zero_point), ", its operand ", n.DType(i)));
}

bool IsByte(DataType dtype) { return dtype.is_integral() && !dtype.is_bool() && dtype.bits() == 8; }

/// Whether input `i` is one number, or left out.
bool IsOneNumber(NodeImport& n, size_t i) {
  return !n.Has(i) || n.Rank(i) == 0 ||
         (n.Rank(i) == 1 && AsConstInt(TypeOf(n.In(i))->shape[0]) != nullptr && n.StaticDim(n.In(i), 0) == 1);
}

/// The product in int32 of inputs `a` and `b` without their zero points.
Expr IntegerMatMul(NodeImport& n, size_t a, size_t a_zero, size_t b, size_t b_zero) {
  CheckZeroPoint(n, a, a_zero);
  CheckZeroPoint(n, b, b_zero);
  const bool per_column = n.Has(b_zero) && n.Rank(b_zero) == 1 && n.Rank(b) == 2;
  if (IsByte(n.DType(a)) && IsByte(n.DType(b)) && IsOneNumber(n, a_zero) && (IsOneNumber(n, b_zero) || per_column)) {
    const Expr one = n.Scalar(DataType::Float(32), 1);
    const Expr data_zero = ZeroPoint(n, a_zero, n.DType(a)), weight_zero = ZeroPoint(n, b_zero, n.DType(b));
    return MatMulAnyRank(n, n.In(a), n.In(b), [&](const char* op, const Expr& x, const Expr& y, const AttrList& attrs) {
      return n.Call(StrCat("q", op).c_str(), {x, y, data_zero, weight_zero, one, one}, attrs);
    });
  }
  return MatMulAnyRank(n, Centered(n, a, a_zero, std::max(n.Rank(a) - 2, 0)), Centered(n, b, b_zero, n.Rank(b) - 1));
}

/// Sums (int32) of scale `scale` as numbers of the scale and zero point at inputs `to` and `to` + 1.
Expr Requantised(NodeImport& n, const Expr& sums, const Expr& scale, size_t to, int64_t axis) {
  const Expr zero = n.Scalar(DataType::Int(32), 0);
  return n.Call("qnn.requantize", {sums, scale, zero, Parameter(n, n.In(to)), Parameter(n, n.In(to + 1))},
                {{"axis", axis}, {"out_dtype", n.DType(to + 1)}});
}

Expr ImportMatMulInteger(NodeImport& n) {
  if (n.Rank(0) < 1 || n.Rank(1) < 1) n.Invalid("the operands can't be scalars");
  return IntegerMatMul(n, 0, 2, 1, 3);
}

/// Inputs: a, its scale and zero point; b, its scale and zero point; scale and zero point of the result.
Expr ImportQLinearMatMul(NodeImport& n) {
  if (n.Rank(0) < 2 || n.Rank(3) < 2) n.Unsupported("operands of rank below 2 aren't implemented");
  CheckParameters(n, 1, n.DType(0));
  CheckParameters(n, 4, n.DType(3));
  Expr product = IntegerMatMul(n, 0, 2, 3, 5);
  const DataType real = DataType::Float(32);
  // Version 21 has scales of 16 bits too: the plain form below widens them.
  const bool wide = n.DType(1) == real && n.DType(4) == real && n.DType(6) == real;
  if (wide && IsOneNumber(n, 1) && n.Rank(4) <= 1 && IsOneNumber(n, 6) && IsOneNumber(n, 7)) {
    const Expr weights = Parameter(n, ScaleBesideZeroPoint(n, 4));
    return Requantised(n, product, n.Call("multiply", {Parameter(n, n.In(1)), weights}), 6, -1);
  }
  const int rank = RankOf(product);
  // One number, a vector with one for each row (of b: column), or of the operand's rank.
  auto spread = [&](size_t i, const Expr& value, int axis) {
    if (n.Rank(i) > rank) n.Invalid(StrCat("input ", i, " has a higher rank than the result"));
    return n.Rank(i) > 1 ? value : Spread(n, value, product, axis, 0);
  };
  auto scale = [&](size_t i, int axis) { return n.Cast(spread(i, ScaleBesideZeroPoint(n, i), axis), real); };
  CheckSummed(n, 1, false);
  CheckSummed(n, 4, true);
  Expr factor = n.Call("divide", {n.Call("multiply", {scale(1, rank - 2), scale(4, rank - 1)}), scale(6, rank - 2)});
  Expr zero_point = spread(7, n.In(7), rank - 2);
  return Saturate(n, n.Call("multiply", {n.Cast(product, real), factor}), zero_point, n.DType(7));
}

/// Inputs of a convolution of integers.
struct IntegerOperands {
  size_t x, x_zero, weight, weight_zero;
};

/// The convolution in int32 of bytes along one or two dimensions; one is the second of two.
Expr ByteConv(NodeImport& n, const Expr& x, const IntegerOperands& in, const Window& w, int64_t groups,
              int64_t channels) {
  const bool narrow = w.spatial == 1;
  auto wide = [&](const Expr& tensor) { return narrow ? n.ExpandDims(tensor, 2) : tensor; };
  auto with = [&](const Ints& sizes, int64_t first) { return narrow ? Ints{first, sizes[0]} : sizes; };
  const AttrList attrs{{"strides", with(w.strides, 1)},
                       {"padding", narrow ? Ints{0, w.pads[0], 0, w.pads[1]} : w.pads},
                       {"dilation", with(w.dilations, 1)},
                       {"groups", groups},
                       {"channels", channels},
                       {"kernel_size", with(w.kernel, 1)},
                       {"out_dtype", DataType::Int(32)}};
  const Expr one = n.Scalar(DataType::Float(32), 1);
  const Expr sums = n.Call("qnn.conv2d",
                           {wide(x), wide(n.In(in.weight)), ZeroPoint(n, in.x_zero, n.DType(in.x)),
                            ZeroPoint(n, in.weight_zero, n.DType(in.weight)), one, one},
                           attrs);
  return narrow ? n.Squeeze(sums, {2}) : sums;
}

/// The convolution in int32 of inputs `x` and `weight` without their zero points.
Expr IntegerConv(NodeImport& n, size_t x, size_t x_zero, size_t weight, size_t weight_zero) {
  CheckZeroPoint(n, x, x_zero);
  CheckZeroPoint(n, weight, weight_zero);
  if (HasUnknownDim(n.In(weight))) {
    const DataType sum = DataType::Int(32);
    return ConvOfAnyWeights(n, Term(n, n.Cast(Centered(n, x, x_zero, 1), sum)),
                            Term(n, n.Cast(Centered(n, weight, weight_zero, 0), sum)));
  }
  Ints shape = n.StaticShape(weight);
  if (shape.size() < 3 || shape.size() > 5) {
    n.Unsupported(StrCat("operands of rank ", shape.size(), " aren't implemented"));
  }
  // Sums over no input channels are 0.
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 1 && shape[i] == 0) n.Invalid("the weights have a dimension of 0");
  }
  if (n.Rank(x) != static_cast<int>(shape.size())) n.Invalid("operand and weights differ in rank");
  Window w = ReadWindow(n, {shape.begin() + 2, shape.end()});
  int64_t groups = n.Int("group", 1);
  if (groups < 1 || shape[0] % groups != 0) n.Invalid(StrCat("'group' is ", groups));
  const std::string wanted = StrCat(shape[1], " in each of ", groups, " groups");
  const Expr operand = OperandWithChannels(n, x, CheckedMul(shape[1], groups), wanted);
  const bool bytes = IsByte(n.DType(x)) && IsByte(n.DType(weight));
  if (bytes && shape[1] != 0 && w.spatial <= 2 && w.run_time.empty() && IsOneNumber(n, x_zero) &&
      (!n.Has(weight_zero) || n.Rank(weight_zero) <= 1)) {
    return ByteConv(n, operand, {x, x_zero, weight, weight_zero}, w, groups, shape[0]);
  }
  AttrList attrs{{"strides", w.strides}, {"padding", w.pads},       {"dilation", w.dilations},       {"groups", groups},
                 {"channels", shape[0]}, {"kernel_size", w.kernel}, {"out_dtype", DataType::Int(32)}};
  constexpr const char* kConv[] = {"nn.conv1d", "nn.conv2d", "nn.conv3d"};
  const Expr centered = PadAtRunTime(n, w, Centered(n, operand, x, x_zero, 1), 0);
  return n.Call(kConv[w.spatial - 1], {centered, Centered(n, weight, weight_zero, 0)}, attrs);
}

Expr ImportConvInteger(NodeImport& n) { return IntegerConv(n, 0, 2, 1, 3); }

/// Inputs: x, its scale and zero point; weights, their scales and zero points (per output channel or one); scale and
/// zero point of the result; bias in int32.
Expr ImportQLinearConv(NodeImport& n) {
  CheckParameters(n, 1, n.DType(0));
  CheckParameters(n, 4, n.DType(3));
  Expr y = IntegerConv(n, 0, 2, 3, 5);
  if (n.Has(8)) y = n.Call("nn.bias_add", {y, n.In(8)}, {{"axis", int64_t{1}}});
  if (IsOneNumber(n, 1) && n.Rank(4) <= 1 && IsOneNumber(n, 6) && IsOneNumber(n, 7)) {
    const Expr weights = Parameter(n, ScaleBesideZeroPoint(n, 4));
    return Requantised(n, y, n.Call("multiply", {Parameter(n, n.In(1)), weights}), 6, 1);
  }
  DataType real = DataType::Float(32);
  auto scale = [&](size_t i) { return n.Cast(Spread(n, ScaleBesideZeroPoint(n, i), y, 1, 0), real); };
  Expr factor = n.Call("divide", {n.Call("multiply", {scale(1), scale(4)}), scale(6)});
  Expr zero_point = Spread(n, n.In(7), y, 1, 0);
  return Saturate(n, n.Call("multiply", {n.Cast(y, real), factor}), zero_point, n.DType(7));
}

}  // namespace

void RegisterQuantizeRules(RuleTable& table) {
  table.Add1("QuantizeLinear", {10, 13, 19, 21, 23, 24, 25, 28}, ImportQuantizeLinear);
  table.Add1("DequantizeLinear", {10, 13, 19, 21, 23, 24, 25, 28}, ImportDequantizeLinear);
  table.Add("DynamicQuantizeLinear", {11}, ImportDynamicQuantizeLinear);
  table.Add1("MatMulInteger", {10}, ImportMatMulInteger);
  table.Add1("QLinearMatMul", {10, 21}, ImportQLinearMatMul);
  table.Add1("ConvInteger", {10}, ImportConvInteger);
  table.Add1("QLinearConv", {10}, ImportQLinearConv);
}

}  // namespace treadle::onnx
