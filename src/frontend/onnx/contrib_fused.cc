// SPDX-License-Identifier: Apache-2.0
// com.microsoft operators that are standard ones with something before or after them.
#include <algorithm>
#include <cmath>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/contrib.h"
#include "frontend/onnx/matmul.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

constexpr int kOpset = 17;

/// x after the activation of that name; `parameters` are what it takes, in order.
Expr Activated(NodeImport& n, const Expr& x, const std::string& name, const std::vector<double>& parameters) {
  auto parameter = [&](size_t i, double otherwise) { return i < parameters.size() ? parameters[i] : otherwise; };
  if (name.empty()) return x;
  if (name == "Relu" || name == "Tanh" || name == "Sigmoid") return StandardOp(n, name, kOpset).Operand(x).Import1();
  if (name == "LeakyRelu") {
    return StandardOp(n, name, kOpset).Operand(x).Set("alpha", parameter(0, 0.01)).Import1();
  }
  if (name == "HardSigmoid") {
    StandardOp op(n, name, kOpset);
    return op.Operand(x).Set("alpha", parameter(0, 0.2)).Set("beta", parameter(1, 0.5)).Import1();
  }
  if (name == "Clip") {
    return n.Call("clip", {x}, {{"a_min", parameter(0, -HUGE_VAL)}, {"a_max", parameter(1, HUGE_VAL)}});
  }
  n.Unsupported(StrCat("the activation ", name, " isn't implemented"));
}

/// X, W, B, Z: the convolution, plus Z, activated. With `last` channels of X, Z and the result are the last dimension.
Expr FusedConvOf(NodeImport& n, bool last) {
  StandardOp op(n, "Conv", kOpset);
  op.Operand(last ? ChannelsFirst(n, n.In(0)) : n.In(0)).Operand(n.In(1)).Operand(n.Has(2) ? n.In(2) : Expr());
  Expr y = op.Take({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}).Import1();
  if (last) y = ChannelsLast(n, y);
  if (n.Has(3)) y = n.Call("add", {y, n.In(3)});
  return Activated(n, y, n.Str("activation", ""), n.Floats("activation_params", std::vector<double>{}));
}
Expr ImportFusedConv(NodeImport& n) { return FusedConvOf(n, false); }
Expr ImportNhwcFusedConv(NodeImport& n) { return FusedConvOf(n, true); }

Expr ImportFusedGemm(NodeImport& n) {
  StandardOp op(n, "Gemm", kOpset);
  op.Operand(n.In(0)).Operand(n.In(1)).Operand(n.Has(2) ? n.In(2) : Expr());
  Expr y = op.Take({"alpha", "beta", "transA", "transB"}).Import1();
  std::vector<double> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (n.HasAttr(name)) parameters.push_back(n.Float(name));
  }
  return Activated(n, y, n.Str("activation", ""), parameters);
}

/// The operand of a product, its last two dimensions swapped if `transposed`; with `batch` its first dimension, which
/// is one of the matrix, comes before the last one.
Expr Arranged(NodeImport& n, const Expr& x, bool transposed, bool batch) {
  const int rank = RankOf(x);
  if (rank < 2) return x;
  Ints axes(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) axes[static_cast<size_t>(i)] = i;
  if (batch) std::rotate(axes.begin(), axes.begin() + 1, axes.end() - 1);
  if (transposed) std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return std::is_sorted(axes.begin(), axes.end()) ? x : n.Transpose(x, axes);
}

Expr ImportFusedMatMul(NodeImport& n) {
  const double alpha = n.Float("alpha", 1.0);
  Expr a = Arranged(n, n.In(0), n.Flag("transA", false), n.Flag("transBatchA", false));
  Expr b = Arranged(n, n.In(1), n.Flag("transB", false), n.Flag("transBatchB", false));
  Expr y = MatMulAnyRank(n, a, b);
  return alpha == 1 ? y : n.Call("multiply", {y, n.Scalar(TypeOf(y)->dtype, alpha)});
}

Expr ImportNhwcMaxPool(NodeImport& n) {
  StandardOp op(n, "MaxPool", kOpset);
  op.Operand(ChannelsFirst(n, n.In(0))).Take({"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"});
  return ChannelsLast(n, op.Import1());
}

Expr GeluOf(NodeImport& n, const Expr& x, const char* approximate) {
  return StandardOp(n, "Gelu", 20).Operand(x).Set("approximate", std::string(approximate)).Import1();
}
Expr Biased(NodeImport& n) {
  return n.Has(1) ? n.Call("add", {n.In(0), WithinShape(In(n, 1), In(n, 0), "the bias")}) : n.In(0);
}

Expr ImportGelu(NodeImport& n) { return GeluOf(n, n.In(0), "none"); }
Expr ImportBiasGelu(NodeImport& n) { return GeluOf(n, Biased(n), "none"); }
Expr ImportFastGelu(NodeImport& n) { return GeluOf(n, Biased(n), "tanh"); }

Expr ImportQuickGelu(NodeImport& n) {
  Expr x = n.In(0);
  Expr scaled = n.Call("multiply", {x, n.Scalar(n.DType(0), n.Float("alpha", 1.702))});
  return n.Call("multiply", {x, n.Call("sigmoid", {scaled})});
}

/// x (.., 2 d) plus bias: its first half times the GELU of its second.
Expr ImportBiasSplitGelu(NodeImport& n) {
  Expr x = n.Call("add", {n.In(0), n.In(1)});
  const int last = RankOf(x) - 1;
  const int64_t size = n.StaticDim(x, last);
  if (size % 2 != 0) n.Invalid("the operand's last dimension is odd");
  return n.Call("multiply", {n.Slice(x, last, 0, size / 2), GeluOf(n, n.Slice(x, last, size / 2, size), "none")});
}

}  // namespace

void RegisterContribFusedRules(RuleTable& table) {
  AddContrib1(table, "FusedConv", ImportFusedConv);
  AddContrib1(table, "NhwcFusedConv", ImportNhwcFusedConv);
  AddContrib1(table, "NhwcConv", ImportNhwcFusedConv);
  AddContrib1(table, "FusedGemm", ImportFusedGemm);
  AddContrib1(table, "FusedMatMul", ImportFusedMatMul);
  AddContrib1(table, "TransposeMatMul", ImportFusedMatMul);
  AddContrib1(table, "NhwcMaxPool", ImportNhwcMaxPool);
  AddContrib1(table, "Gelu", ImportGelu);
  AddContrib1(table, "BiasGelu", ImportBiasGelu);
  AddContrib1(table, "FastGelu", ImportFastGelu);
  AddContrib1(table, "QuickGelu", ImportQuickGelu);
  AddContrib1(table, "BiasSplitGelu", ImportBiasSplitGelu);
}

}  // namespace treadle::onnx
