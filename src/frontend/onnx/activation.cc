// SPDX-License-Identifier: Apache-2.0
// Activation functions and softmax.
#include <cmath>

#include "frontend/onnx/compose.h"
#include "frontend/onnx/rules.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

ImportRule Unary(const char* op) {
  return [op](NodeImport& n) -> std::vector<Expr> {
    n.Ignore({"consumed_inputs"});
    return {n.Call(op, {n.In(0)})};
  };
}

/// Arithmetic of an operand with numbers, at the operand's type.
struct Arith {
  NodeImport& n;
  DataType dtype;

  explicit Arith(NodeImport& node) : n(node), dtype(node.DType(0)) { n.Ignore({"consumed_inputs"}); }
  Expr Num(double v) const { return n.Scalar(dtype, v); }
  Expr Add(const Expr& a, const Expr& b) const { return n.Call("add", {a, b}); }
  Expr Sub(const Expr& a, const Expr& b) const { return n.Call("subtract", {a, b}); }
  Expr Mul(const Expr& a, const Expr& b) const { return n.Call("multiply", {a, b}); }
  Expr Div(const Expr& a, const Expr& b) const { return n.Call("divide", {a, b}); }
  Expr Exp(const Expr& a) const { return n.Call("exp", {a}); }
  Expr Less(const Expr& a, const Expr& b) const { return n.Call("less", {a, b}); }
  Expr Where(const Expr& c, const Expr& a, const Expr& b) const { return n.Call("where", {c, a, b}); }
  Expr Clip01(const Expr& x) const { return n.Call("clip", {x}, {{"a_min", 0.0}, {"a_max", 1.0}}); }
  /// exp(min(x, 0)): doesn't overflow where the other branch of a Where is taken.
  Expr ExpOfNegative(const Expr& x) const { return Exp(n.Call("minimum", {x, Num(0)})); }
  /// log(1 + exp(x)), without overflow.
  Expr Softplus(const Expr& x) const {
    Expr positive = n.Call("maximum", {x, Num(0)});
    Expr magnitude = n.Call("abs", {x});
    return Add(positive, n.Call("log", {Add(Num(1), Exp(n.Call("negative", {magnitude})))}));
  }
};

Expr ImportLeakyRelu(NodeImport& n) {
  n.Ignore({"consumed_inputs"});
  return n.Call("nn.leaky_relu", {n.In(0)}, {{"alpha", n.Float("alpha", 0.01)}});
}

/// The slope broadcasts to the operand; before opset 7 one of rank 1 belongs to axis 1.
Expr ImportPRelu(NodeImport& n) {
  Arith a(n);
  Expr x = n.In(0);
  Expr slope = n.In(1);
  if (n.version() < 7 && n.Rank(1) == 1 && n.Rank(0) > 1) slope = n.ExpandDims(slope, 1, n.Rank(0) - 2);
  if (RankOf(slope) > n.Rank(0)) n.Invalid("the slope has a higher rank than the operand");
  return a.Where(a.Less(x, a.Num(0)), a.Mul(slope, x), x);
}

Expr ImportHardSigmoid(NodeImport& n) {
  Arith a(n);
  double alpha = n.Float("alpha", 0.2);
  double beta = n.Float("beta", 0.5);
  return a.Clip01(a.Add(a.Mul(n.In(0), a.Num(alpha)), a.Num(beta)));
}

Expr ImportHardSwish(NodeImport& n) {
  Arith a(n);
  Expr x = n.In(0);
  return a.Mul(x, a.Clip01(a.Add(a.Mul(x, a.Num(1.0 / 6)), a.Num(0.5))));
}

Expr ImportElu(NodeImport& n) {
  Arith a(n);
  Expr x = n.In(0);
  double alpha = n.Float("alpha", 1.0);
  return a.Where(a.Less(x, a.Num(0)), a.Mul(a.Num(alpha), a.Sub(a.ExpOfNegative(x), a.Num(1))), x);
}

Expr ImportCelu(NodeImport& n) {
  Arith a(n);
  Expr x = n.In(0);
  double alpha = n.Float("alpha", 1.0);
  Expr low = a.Mul(a.Num(alpha), a.Sub(a.ExpOfNegative(a.Div(x, a.Num(alpha))), a.Num(1)));
  return a.Where(a.Less(x, a.Num(0)), low, x);
}

Expr ImportSelu(NodeImport& n) {
  Arith a(n);
  Expr x = n.In(0);
  double alpha = n.Float("alpha", n.version() < 6 ? 1.6732 : 1.67326319217681884765625);
  double gamma = n.Float("gamma", n.version() < 6 ? 1.0507 : 1.05070102214813232421875);
  Expr low = a.Mul(a.Num(alpha), a.Sub(a.ExpOfNegative(x), a.Num(1)));
  return a.Mul(a.Num(gamma), a.Where(a.Less(a.Num(0), x), x, low));
}

Expr ImportThresholdedRelu(NodeImport& n) {
  Arith a(n);
  Expr x = n.In(0);
  double alpha = n.Float("alpha", 1.0);
  return a.Where(a.Less(a.Num(alpha), x), x, a.Num(0));
}

Expr ImportShrink(NodeImport& n) {
  Arith a(n);
  Expr x = n.In(0);
  double bias = n.Float("bias", 0.0);
  double lambd = n.Float("lambd", 0.5);
  Expr high = a.Where(a.Less(a.Num(lambd), x), a.Sub(x, a.Num(bias)), a.Num(0));
  return a.Where(a.Less(x, a.Num(-lambd)), a.Add(x, a.Num(bias)), high);
}

Expr ImportSoftplus(NodeImport& n) { return Arith(n).Softplus(n.In(0)); }

Expr ImportSoftsign(NodeImport& n) {
  Arith a(n);
  Expr x = n.In(0);
  return a.Div(x, a.Add(a.Num(1), n.Call("abs", {x})));
}

Expr ImportMish(NodeImport& n) {
  Arith a(n);
  return a.Mul(n.In(0), n.Call("tanh", {a.Softplus(n.In(0))}));
}

Expr ImportSwish(NodeImport& n) {
  Arith a(n);
  Expr x = n.In(0);
  double alpha = n.Float("alpha", 1.0);
  return a.Mul(x, n.Call("sigmoid", {alpha == 1 ? x : a.Mul(a.Num(alpha), x)}));
}

Expr ImportGelu(NodeImport& n) {
  Arith a(n);
  // -infinity times 0 would be NaN; what the function tends to is 0.
  const PrimExpr least = tir::min_value(a.dtype);
  const auto* lowest = least.as<FloatImmNode>();
  if (lowest == nullptr) n.Invalid(StrCat("the operand is ", a.dtype, ", expected floats"));
  Expr x = n.Call("maximum", {n.In(0), a.Num(lowest->value)});
  std::string approximate = n.Str("approximate", "none");
  if (approximate == "none") {
    Expr erf = n.Call("erf", {a.Mul(x, a.Num(std::sqrt(0.5)))});
    return a.Mul(a.Mul(a.Num(0.5), x), a.Add(a.Num(1), erf));
  }
  if (approximate != "tanh") n.Invalid(StrCat("'approximate' is ", QuoteName(approximate)));
  Expr cube = a.Mul(a.Num(0.044715), a.Mul(x, a.Mul(x, x)));
  Expr inner = a.Mul(a.Num(std::sqrt(2 / 3.14159265358979323846)), a.Add(x, cube));
  return a.Mul(a.Mul(a.Num(0.5), x), a.Add(a.Num(1), n.Call("tanh", {inner})));
}

/// Dimensions before `axis`, and those from it on, as one each.
Term AsMatrix(const Term& x, int axis) {
  Term rows = IntNum(x.node(), 1), columns = rows;
  for (int i = 0; i < x.rank(); ++i) {
    Term& side = i < axis ? rows : columns;
    side = side * DimOf(x, i);
  }
  return ReshapeTo(x, {rows, columns});
}

/// Before opset 13 the operand counts as a matrix: dimensions from `axis` on are one.
ImportRule Softmax(const char* op) {
  return [op](NodeImport& n) -> std::vector<Expr> {
    Expr x = n.In(0);
    int rank = n.Rank(0);
    bool matrix = n.version() < 13;
    int axis = n.Axis(n.Int("axis", matrix ? 1 : -1), rank);
    if (!matrix || axis == rank - 1) return {n.Call(op, {x}, {{"axis", int64_t{axis}}})};
    Term flat = AsMatrix(Term(n, x), axis).Op(op, {{"axis", int64_t{1}}});
    return {ReshapeTo(flat, ShapeOf(Term(n, x)))};
  };
}

/// 1 at the first maximum along `axis`, 0 elsewhere.
Expr ImportHardmax(NodeImport& n) {
  Expr x = n.In(0);
  int rank = n.Rank(0);
  bool matrix = n.version() < 13;
  int axis = n.Axis(n.Int("axis", matrix ? 1 : -1), rank);
  const bool flatten = matrix && axis != rank - 1;
  Term rows = flatten ? AsMatrix(Term(n, x), axis) : Term(n, x);
  if (flatten) axis = 1;
  Term argmax(n, n.Cast(n.Call("argmax", {rows}, {{"axis", std::vector<int64_t>{axis}}, {"keepdims", true}}),
                        DataType::Int(64)));
  Term positions = Iota(DimOf(rows, axis));
  if (axis + 1 < rows.rank()) positions = positions.Expand(1, rows.rank() - 1 - axis);
  Term hit = (argmax == positions).As(n.DType(0));
  return flatten ? ReshapeTo(hit, ShapeOf(Term(n, x))) : hit;
}

}  // namespace

void RegisterActivationRules(RuleTable& table) {
  table.Add("Relu", {1, 6, 13, 14}, Unary("nn.relu"));
  table.Add("Sigmoid", {1, 6, 13}, Unary("sigmoid"));
  table.Add("Tanh", {1, 6, 13}, Unary("tanh"));
  table.Add1("LeakyRelu", {1, 6, 16}, ImportLeakyRelu);
  table.Add1("PRelu", {1, 6, 7, 9, 16}, ImportPRelu);
  table.Add1("HardSigmoid", {1, 6, 22}, ImportHardSigmoid);
  table.Add1("HardSwish", {14, 22}, ImportHardSwish);
  table.Add1("Elu", {1, 6, 22}, ImportElu);
  table.Add1("Celu", {12, 28}, ImportCelu);
  table.Add1("Selu", {1, 6, 22}, ImportSelu);
  table.Add1("ThresholdedRelu", {10, 22}, ImportThresholdedRelu);
  table.Add1("Shrink", {9}, ImportShrink);
  table.Add1("Softplus", {1, 22}, ImportSoftplus);
  table.Add1("Softsign", {1, 22}, ImportSoftsign);
  table.Add1("Mish", {18, 22}, ImportMish);
  table.Add1("Swish", {24}, ImportSwish);
  table.Add1("Gelu", {20}, ImportGelu);
  table.Add("Softmax", {1, 11, 13}, Softmax("nn.softmax"));
  table.Add("LogSoftmax", {1, 11, 13}, Softmax("nn.log_softmax"));
  table.Add1("Hardmax", {1, 11, 13}, ImportHardmax);
}

}  // namespace treadle::onnx
