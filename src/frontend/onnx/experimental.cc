// SPDX-License-Identifier: Apache-2.0
// Operators of the first opsets that ONNX took out again, and those that early exporters wrote under names of their own
// framework.
#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/rules.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

/// alpha * x + beta.
Expr ImportAffine(NodeImport& n) {
  Expr scaled = n.Call("multiply", {n.In(0), n.Scalar(n.DType(0), n.Float("alpha", 1.0))});
  return n.Call("add", {scaled, n.Scalar(n.DType(0), n.Float("beta", 0.0))});
}

Expr ImportScale(NodeImport& n) { return n.Call("multiply", {n.In(0), n.Scalar(n.DType(0), n.Float("scale", 1.0))}); }

/// alpha * tanh(beta * x).
Expr ImportScaledTanh(NodeImport& n) {
  Expr inner = n.Call("multiply", {n.In(0), n.Scalar(n.DType(0), n.Float("beta", 1.0))});
  return n.Call("multiply", {n.Call("tanh", {inner}), n.Scalar(n.DType(0), n.Float("alpha", 1.0))});
}

/// alpha * log(1 + exp(beta * x)), without overflow.
Expr ImportParametricSoftplus(NodeImport& n) {
  const DataType dtype = n.DType(0);
  Expr x = n.Call("multiply", {n.In(0), n.Scalar(dtype, n.Float("beta", 1.0))});
  Expr small = n.Call("exp", {n.Call("negative", {n.Call("abs", {x})})});
  Expr rest = n.Call("log", {n.Call("add", {n.Scalar(dtype, 1.0), small})});
  Expr soft = n.Call("add", {n.Call("maximum", {x, n.Scalar(dtype, 0.0)}), rest});
  return n.Call("multiply", {soft, n.Scalar(dtype, n.Float("alpha", 1.0))});
}

/// Dimensions from `axis` on are one: a matrix, times the transposed weight, plus the bias.
Expr ImportFullyConnected(NodeImport& n) {
  auto matrix = [&](size_t input, const char* attribute) {
    const std::vector<int64_t> shape = n.StaticShapeOf(n.In(input));
    const int axis = n.Axis(n.Int(attribute, 1), static_cast<int>(shape.size()));
    int64_t rows = 1;
    for (int d = 0; d < axis; ++d) rows *= shape[static_cast<size_t>(d)];
    return n.Reshape(n.In(input), {rows, -1});
  };
  Expr data = matrix(0, "axis"), weight = matrix(1, "axis_w");
  return n.Call("add", {n.Call("nn.dense", {data, weight}), n.In(2)});
}

/// BatchNormalization over the channels, as inference does it.
Expr ImportSpatialBN(NodeImport& n) {
  n.Ignore({"is_test", "momentum", "order"});
  if (n.Rank(0) < 2) n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected at least 2"));
  Expr result = n.Call("nn.batch_norm", {n.In(0), n.In(1), n.In(2), n.In(3), n.In(4)},
                       {{"axis", int64_t{1}}, {"epsilon", n.Float("epsilon", 1e-5)}});
  return n.Item(result, 0);
}

/// A function of PyTorch by its name.
Expr ImportATen(NodeImport& n) {
  n.Ignore({"overload_name"});
  const std::string name = n.Str("operator", "");
  if (name == "embedding") {
    return PickedRows(n, n.In(0), n.In(1), "index of an embedding");
  }
  if (name == "relu") return n.Call("nn.relu", {n.In(0)});
  if (name == "sigmoid" || name == "tanh" || name == "exp") return n.Call(name.c_str(), {n.In(0)});
  n.Unsupported(StrCat("PyTorch's function '", name, "'; there are: embedding, exp, relu, sigmoid, tanh"));
}

}  // namespace

void RegisterExperimentalRules(RuleTable& table) {
  table.Add1("ATen", {1}, ImportATen);
  table.Add1("Affine", {1}, ImportAffine);
  table.Add1("FC", {1}, ImportFullyConnected);
  table.Add1("ParametricSoftplus", {1}, ImportParametricSoftplus);
  table.Add1("Scale", {1}, ImportScale);
  table.Add1("ScaledTanh", {1}, ImportScaledTanh);
  table.Add1("SpatialBN", {1}, ImportSpatialBN);
}

}  // namespace treadle::onnx
