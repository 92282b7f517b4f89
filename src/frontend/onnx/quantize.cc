// SPDX-License-Identifier: Apache-2.0
// Quantised numbers: conversions, and products of integers. Products are exact in int32, as the standard wants.
#include <algorithm>

#include "frontend/onnx/matmul.h"
#include "frontend/onnx/rules.h"
#include "frontend/onnx/window.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

/// Scale or zero point, shaped so that it broadcasts to an operand of `shape`: one number, one per element of `axis`,
/// or (with `block` > 0) one per `block` elements of it.
Expr Spread(NodeImport& n, const Expr& value, const Array<PrimExpr>& shape, int64_t axis, int64_t block) {
  int rank = static_cast<int>(shape.size());
  if (RankOf(value) == 0 || (RankOf(value) == 1 && n.StaticDim(value, 0) == 1)) {
    return RankOf(value) == 0 ? value : n.Reshape(value, {});
  }
  int at = n.Axis(axis, rank);
  if (block == 0) {
    if (RankOf(value) != 1) n.Invalid(StrCat("scale or zero point has rank ", RankOf(value)));
    return n.ExpandDims(value, 1, rank - 1 - at);
  }
  if (RankOf(value) != rank) n.Invalid("blocked scales have to have the operand's rank");
  Expr repeated = n.Call("repeat", {value}, {{"repeats", block}, {"axis", int64_t{at}}});
  const int64_t* size = AsConstInt(shape[static_cast<size_t>(at)]);
  if (size == nullptr) n.Unsupported("blocks of a symbolic dimension aren't implemented");
  int64_t have = n.StaticDim(repeated, at);
  if (have < *size || have - *size >= block) n.Invalid(StrCat("'block_size' ", block, " doesn't fit the scales"));
  return have == *size ? repeated : n.Slice(repeated, at, 0, *size);
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

Expr ImportQuantizeLinear(NodeImport& n) {
  n.Ignore({"saturate"});  // of 8-bit floats, which are refused
  int64_t axis = n.Int("axis", 1);
  int64_t block = n.Int("block_size", 0);
  if (block < 0 || block > INT32_MAX) n.Invalid(StrCat("'block_size' is ", block));
  int64_t precision = n.Int("precision", 0);
  if (precision != 0 && precision != static_cast<int64_t>(ElemType::kFloat)) {
    n.Unsupported("'precision' other than float isn't implemented");
  }
  DataType dtype = DataType::UInt(8);
  if (n.Has(2)) {
    dtype = n.DType(2);
  } else if (n.Int("output_dtype", 0) != 0) {
    dtype = n.TypeAttr("output_dtype");
  }
  n.Ignore({"output_dtype"});
  const Array<PrimExpr> shape = TypeOf(n.In(0))->shape;
  // In float32, and in the precision of the scale where that is larger.
  DataType real = n.DType(1) == DataType::Float(64) ? n.DType(1) : DataType::Float(32);
  Expr scale = n.Cast(Spread(n, n.In(1), shape, axis, block), real);
  Expr zero_point = n.Has(2) ? Spread(n, n.In(2), shape, axis, block) : Expr();
  return Saturate(n, n.Call("divide", {n.Cast(n.In(0), real), scale}), zero_point, dtype);
}

Expr ImportDequantizeLinear(NodeImport& n) {
  n.AllowSubByte();
  int64_t axis = n.Int("axis", 1);
  int64_t block = n.Int("block_size", 0);
  if (block < 0 || block > INT32_MAX) n.Invalid(StrCat("'block_size' is ", block));
  DataType dtype = n.Int("output_dtype", 0) != 0 ? n.TypeAttr("output_dtype") : n.DType(1);
  if (!n.DType(0).is_integral()) n.Unsupported(StrCat("dequantisation of ", n.DType(0), " isn't implemented"));
  const Array<PrimExpr> shape = TypeOf(n.In(0))->shape;
  DataType real = n.DType(1) == DataType::Float(64) ? n.DType(1) : DataType::Float(32);
  Expr x = n.Cast(n.In(0), DataType::Int(32));
  if (n.Has(2)) {
    Expr zero_point = n.Cast(Spread(n, n.In(2), shape, axis, block), DataType::Int(32));
    x = n.Call("subtract", {x, zero_point});
  }
  Expr scale = n.Cast(Spread(n, n.In(1), shape, axis, block), real);
  return n.Cast(n.Call("multiply", {n.Cast(x, real), scale}), dtype);
}

/// To uint8, with scale and zero point from the operand's range (which is made to hold 0).
std::vector<Expr> ImportDynamicQuantizeLinear(NodeImport& n) {
  Expr x = n.In(0);
  DataType real = n.DType(0);
  Expr zero = n.Scalar(real, 0);
  Ints axes;
  for (int i = 0; i < n.Rank(0); ++i) axes.push_back(i);
  AttrList all{{"axis", axes}, {"keepdims", false}};
  Expr high = n.Call("maximum", {n.Call("max", {x}, all), zero});
  Expr low = n.Call("minimum", {n.Call("min", {x}, all), zero});
  Expr scale = n.Call("divide", {n.Call("subtract", {high, low}), n.Scalar(real, 255)});
  Expr is_zero = n.Call("equal", {scale, zero});
  Expr divisor = n.Call("where", {is_zero, n.Scalar(real, 1), scale});
  Expr zero_point = Saturate(n, n.Call("divide", {n.Call("negative", {low}), divisor}), Expr(), DataType::UInt(8));
  Expr y = Saturate(n, n.Call("divide", {x, divisor}), zero_point, DataType::UInt(8));
  return {y, scale, zero_point};
}

/// Input `i` as int32 without its zero point, input `zero_point`: one number, or one per element of dimension `axis`.
Expr Centered(NodeImport& n, size_t i, size_t zero_point, int axis) {
  if (n.DType(i).bits() > 8 || !n.DType(i).is_integral()) n.Unsupported(StrCat("operands of type ", n.DType(i)));
  Expr x = n.Cast(n.In(i), DataType::Int(32));
  if (!n.Has(zero_point)) return x;
  Expr value = n.Cast(n.In(zero_point), DataType::Int(32));
  int rank = n.Rank(i);
  // Higher ranks are those of the operand already, with 1 where they broadcast.
  if (RankOf(value) <= 1) value = Spread(n, value, TypeOf(x)->shape, axis, 0);
  if (RankOf(value) > rank) n.Invalid("a zero point has a higher rank than its operand");
  return n.Call("subtract", {x, value});
}

Expr ImportMatMulInteger(NodeImport& n) {
  if (n.Rank(0) < 1 || n.Rank(1) < 1) n.Invalid("the operands can't be scalars");
  return MatMulAnyRank(n, Centered(n, 0, 2, std::max(n.Rank(0) - 2, 0)), Centered(n, 1, 3, n.Rank(1) - 1));
}

/// Inputs: a, its scale and zero point; b, its scale and zero point; scale and zero point of the result.
Expr ImportQLinearMatMul(NodeImport& n) {
  if (n.Rank(0) < 2 || n.Rank(3) < 2) n.Unsupported("operands of rank below 2 aren't implemented");
  Expr product = MatMulAnyRank(n, Centered(n, 0, 2, n.Rank(0) - 2), Centered(n, 3, 5, n.Rank(3) - 1));
  DataType real = DataType::Float(32);
  const Array<PrimExpr> shape = TypeOf(product)->shape;
  int rank = RankOf(product);
  auto scale = [&](size_t i, int axis) { return n.Cast(Spread(n, n.In(i), shape, axis, 0), real); };
  Expr factor = n.Call("divide", {n.Call("multiply", {scale(1, rank - 2), scale(4, rank - 1)}), scale(6, rank - 2)});
  Expr zero_point = Spread(n, n.In(7), shape, rank - 2, 0);
  return Saturate(n, n.Call("multiply", {n.Cast(product, real), factor}), zero_point, n.DType(7));
}

Expr IntegerConv(NodeImport& n, const Expr& x, const Expr& weight) {
  Ints shape = n.StaticShapeOf(weight);
  if (shape.size() < 3) n.Unsupported(StrCat("operands of rank ", shape.size(), " aren't implemented"));
  Window w = ReadWindow(n, {shape.begin() + 2, shape.end()});
  int64_t groups = n.Int("group", 1);
  if (groups < 1 || shape[0] % groups != 0) n.Invalid(StrCat("'group' is ", groups));
  constexpr const char* kConv[] = {"nn.conv1d", "nn.conv2d", "nn.conv3d"};
  return n.Call(kConv[w.spatial - 1], {x, weight},
                {{"strides", w.strides},
                 {"padding", w.pads},
                 {"dilation", w.dilations},
                 {"groups", groups},
                 {"channels", shape[0]},
                 {"kernel_size", w.kernel},
                 {"out_dtype", DataType::Int(32)}});
}

Expr ImportConvInteger(NodeImport& n) { return IntegerConv(n, Centered(n, 0, 2, 1), Centered(n, 1, 3, 0)); }

/// Inputs: x, its scale and zero point; weights, their scales and zero points (per output channel or one); scale and
/// zero point of the result; bias in int32.
Expr ImportQLinearConv(NodeImport& n) {
  Expr y = IntegerConv(n, Centered(n, 0, 2, 1), Centered(n, 3, 5, 0));
  if (n.Has(8)) y = n.Call("nn.bias_add", {y, n.In(8)}, {{"axis", int64_t{1}}});
  DataType real = DataType::Float(32);
  const Array<PrimExpr> shape = TypeOf(y)->shape;
  auto scale = [&](size_t i) { return n.Cast(Spread(n, n.In(i), shape, 1, 0), real); };
  Expr factor = n.Call("divide", {n.Call("multiply", {scale(1), scale(4)}), scale(6)});
  Expr zero_point = Spread(n, n.In(7), shape, 1, 0);
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
