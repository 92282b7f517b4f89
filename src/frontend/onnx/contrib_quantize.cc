// SPDX-License-Identifier: Apache-2.0
// Quantised operators of com.microsoft: the standard operator between a dequantisation and a quantisation, which
// FakeQuantizationToInteger makes one on integers. Scalars stand in for what a node leaves out.
#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/contrib.h"
#include "frontend/onnx/matmul.h"

namespace treadle::onnx {

relay::Expr IntegerProduct(NodeImport& n, const relay::Expr& a, const relay::Expr& a_scale, const relay::Expr& a_zero,
                           size_t b, size_t b_scale, size_t b_zero) {
  StandardOp op(n, "MatMulInteger", 10);
  relay::Expr product =
      op.Operand(a).Operand(n.In(b)).Operand(a_zero).Operand(n.Has(b_zero) ? n.In(b_zero) : relay::Expr()).Import1();
  relay::Expr scale = n.In(b_scale);
  const int64_t* scales = RankOf(scale) == 1 ? AsConstInt(TypeOf(scale)->shape[0]) : nullptr;
  // A vector of one number broadcasts like the number, except to a product of two vectors.
  if (RankOf(scale) == 1 && ((scales != nullptr && *scales == 1) || RankOf(product) == 0)) scale = n.Reshape(scale, {});
  return n.Call("multiply", {n.Cast(product, DataType::Float(32)), n.Call("multiply", {a_scale, scale})});
}

namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

/// Opset whose definitions the standard operators have here, where it matters none.
constexpr int kOpset = 13;

const DataType kFloat = DataType::Float(32);

/// A, its scale and zero point, B with the same, scale and zero point of the result, which is added before the sum is
/// rounded (that tells where it is odd and the sum between two integers).
Expr ImportQLinearAdd(NodeImport& n) {
  Expr sum = n.Call("add", {Dequantized(n, 0, 1, 2), Dequantized(n, 3, 4, 5)});
  const DataType dtype = n.DType(0);
  Expr scaled = n.Call("divide", {sum, n.Reshape(n.In(6), {})});
  if (n.Has(7)) scaled = n.Call("add", {scaled, n.Cast(n.Reshape(n.In(7), {}), kFloat)});
  return n.Call("qnn.quantize", {scaled, n.Scalar(kFloat, 1), n.Scalar(dtype, 0)},
                {{"axis", int64_t{0}}, {"out_dtype", dtype}});
}

/// The same for a product, to which the zero point is added after rounding.
Expr ImportQLinearMul(NodeImport& n) {
  return Quantized(n, n.Call("multiply", {Dequantized(n, 0, 1, 2), Dequantized(n, 3, 4, 5)}), 6, 7, n.DType(0));
}

Expr Requantized(NodeImport& n, const Expr& real) { return Quantized(n, real, 3, 4, n.DType(0)); }

Expr ImportQLinearSigmoid(NodeImport& n) {
  return Requantized(n, StandardOp(n, "Sigmoid", kOpset).Operand(Dequantized(n, 0, 1, 2)).Import1());
}
Expr ImportQLinearLeakyRelu(NodeImport& n) {
  return Requantized(n, StandardOp(n, "LeakyRelu", kOpset).Operand(Dequantized(n, 0, 1, 2)).Take({"alpha"}).Import1());
}
Expr ImportQLinearSoftmax(NodeImport& n) {
  const int64_t opset = n.Int("opset");
  if (opset < 1 || opset > 28) n.Invalid(StrCat("'opset' is ", opset));
  StandardOp op(n, "Softmax", opset < 13 ? 11 : 13);
  return Requantized(n, op.Operand(Dequantized(n, 0, 1, 2)).Take({"axis"}).Import1());
}

/// A pooling operator of the dequantised operand; `channels_last` says where its channels are.
Expr PooledInFloat(NodeImport& n, StandardOp& op) {
  const bool last = n.Flag("channels_last", false);
  Expr x = Dequantized(n, 0, 1, 2);
  Expr y = op.Operand(last ? ChannelsFirst(n, x) : x).Import1();
  return Requantized(n, last ? ChannelsLast(n, y) : y);
}
Expr ImportQLinearGlobalAveragePool(NodeImport& n) {
  constexpr int kImage = 4;
  if (n.Rank(0) == kImage && n.Flag("channels_last", false)) {
    return Requantized(n, n.Call("nn.global_avg_pool2d", {Dequantized(n, 0, 1, 2)}, {{"layout", "NHWC"}}));
  }
  StandardOp op(n, "GlobalAveragePool", kOpset);
  return PooledInFloat(n, op);
}
Expr ImportQLinearAveragePool(NodeImport& n) {
  StandardOp op(n, "AveragePool", kOpset);
  op.Take({"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"});
  return PooledInFloat(n, op);
}
Expr ImportQLinearReduceMean(NodeImport& n) {
  StandardOp op(n, "ReduceMean", kOpset);
  return Requantized(n, op.Operand(Dequantized(n, 0, 1, 2)).Take({"axes", "keepdims"}).Import1());
}

/// Scale and zero point of the result, then value, scale and zero point of each part.
Expr ImportQLinearConcat(NodeImport& n) {
  if (n.num_inputs() < 5 || (n.num_inputs() - 2) % 3 != 0) n.Invalid("inputs don't come in threes");
  StandardOp op(n, "Concat", kOpset);
  for (size_t i = 2; i < n.num_inputs(); i += 3) op.Operand(Dequantized(n, i, i + 1, i + 2));
  return Quantized(n, op.Take({"axis"}).Import1(), 0, 1, n.DType(2));
}

/// Condition, X with scale and zero point, Y with the same, scale and zero point of the result.
Expr ImportQLinearWhere(NodeImport& n) {
  Expr y = n.Call("where", {n.In(0), Dequantized(n, 1, 2, 3), Dequantized(n, 4, 5, 6)});
  return Quantized(n, y, 7, 8, n.DType(1));
}

/// A, its scale and zero point, B with the same, C (int32, of the product's scale), scale and zero point of the result.
Expr ImportQGemm(NodeImport& n) {
  const double alpha = n.Float("alpha", 1.0);
  const bool transposed = n.Flag("transB", false);
  StandardOp op(n, "Gemm", kOpset);
  Expr a = Dequantized(n, 0, 1, 2), b = Dequantized(n, 3, 4, 5, transposed ? 0 : 1);
  Expr product = op.Operand(a).Operand(b).Take({"transA", "transB"}).Import1();
  if (n.Has(6)) {
    // Of the product's scale, rows of it by columns' own.
    Expr scale = n.Call("multiply", {n.Reshape(n.In(1), {}), n.In(4)});
    auto count = [](const Expr& vector) {  // -1: only a run knows
      const int64_t* known = AsConstInt(TypeOf(vector)->shape[0]);
      return known != nullptr ? *known : -1;
    };
    if (RankOf(scale) == 1 && count(scale) == 1) scale = n.Reshape(scale, {});
    const Expr zero = n.Scalar(DataType::Int(32), 0);
    // One scale, or one for each element; other biases broadcast.
    const bool alike =
        RankOf(scale) == 0 || (count(scale) >= 0 && n.Rank(6) == 1 && count(n.In(6)) >= 0 && count(n.In(6)) != 1);
    Expr bias = alike && n.Rank(6) <= 1 ? n.Call("qnn.dequantize", {n.In(6), scale, zero}, {{"axis", int64_t{0}}})
                                        : n.Call("multiply", {n.Cast(n.In(6), kFloat), scale});
    product = n.Call("add", {product, bias});
  }
  if (alpha != 1) product = n.Call("multiply", {product, n.Scalar(kFloat, alpha)});
  return n.Has(7) ? Quantized(n, product, 7, 8, n.DType(0)) : product;
}

/// x, its scale and zero point, w with the same, scale and zero point of the result, bias in int32.
Expr ImportQLinearConv(NodeImport& n) {
  const bool last = n.Flag("channels_last", false);
  StandardOp op(n, "QLinearConv", 10);
  op.Take({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
  op.Operand(last ? ChannelsFirst(n, n.In(0)) : n.In(0));
  for (size_t i = 1; i < 8; ++i) op.Operand(n.Has(i) ? n.In(i) : Expr());
  if (n.Has(8)) op.Operand(n.In(8));
  Expr y = op.Import1();
  return last ? ChannelsLast(n, y) : y;
}

/// A bias that is added where there is one.
Expr WithBias(NodeImport& n, const Expr& y, size_t i) {
  return n.Has(i) ? n.Call("add", {y, WithinShape(In(n, i), Term(n, y), "the bias")}) : y;
}

/// A (float32), B, its scale and zero point, bias.
Expr ImportDynamicQuantizeMatMul(NodeImport& n) {
  std::vector<Expr> a = StandardOp(n, "DynamicQuantizeLinear", 11).Operand(n.In(0)).Import(3);
  return WithBias(n, IntegerProduct(n, a[0], a[1], a[2], 1, 2, 3), 4);
}

/// A, B, their scales, their zero points, bias.
Expr ImportMatMulIntegerToFloat(NodeImport& n) {
  Expr scale = n.In(2);
  if (RankOf(scale) == 1 && AsConstInt(TypeOf(scale)->shape[0]) == nullptr) {
    scale = WithSizes(Term(n, scale), {1}, "the left operand's scale");
  }
  if (RankOf(scale) == 1 && *AsConstInt(TypeOf(scale)->shape[0]) == 1) scale = n.Reshape(scale, {});
  if (RankOf(scale) != 0) n.Unsupported("several scales of the left operand aren't implemented");
  return WithBias(n, IntegerProduct(n, n.In(0), scale, n.Has(4) ? n.In(4) : Expr(), 1, 3, 5), 6);
}

/// As the standard's, but per tensor where no axis is given.
Expr ImportMsQuantizeLinear(NodeImport& n) {
  n.AllowSubByte();
  return StandardOp(n, "QuantizeLinear", 21).Input(0).Input(1).Input(2).Take({"axis", "block_size"}).Import1();
}
Expr ImportMsDequantizeLinear(NodeImport& n) {
  n.AllowSubByte();
  return StandardOp(n, "DequantizeLinear", 21).Input(0).Input(1).Input(2).Take({"axis", "block_size"}).Import1();
}

}  // namespace

void RegisterContribQuantizeRules(RuleTable& table) {
  AddContrib1(table, "QLinearAdd", ImportQLinearAdd);
  AddContrib1(table, "QLinearMul", ImportQLinearMul);
  AddContrib1(table, "QLinearSigmoid", ImportQLinearSigmoid);
  AddContrib1(table, "QLinearLeakyRelu", ImportQLinearLeakyRelu);
  AddContrib1(table, "QLinearSoftmax", ImportQLinearSoftmax);
  AddContrib1(table, "QLinearGlobalAveragePool", ImportQLinearGlobalAveragePool);
  AddContrib1(table, "QLinearAveragePool", ImportQLinearAveragePool);
  AddContrib1(table, "QLinearReduceMean", ImportQLinearReduceMean);
  AddContrib1(table, "QLinearConcat", ImportQLinearConcat);
  AddContrib1(table, "QLinearWhere", ImportQLinearWhere);
  AddContrib1(table, "QLinearConv", ImportQLinearConv);
  AddContrib1(table, "QGemm", ImportQGemm);
  AddContrib1(table, "DynamicQuantizeMatMul", ImportDynamicQuantizeMatMul);
  AddContrib1(table, "MatMulIntegerToFloat", ImportMatMulIntegerToFloat);
  AddContrib1(table, "QuantizeLinear", ImportMsQuantizeLinear);
  AddContrib1(table, "DequantizeLinear", ImportMsDequantizeLinear);
}

}  // namespace treadle::onnx
