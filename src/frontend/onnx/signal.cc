// SPDX-License-Identifier: Apache-2.0
// Windows and the discrete Fourier transform, which is a product with a matrix that is known when compiling.
#include <cmath>

#include "frontend/onnx/matmul.h"
#include "frontend/onnx/rules.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kMaxWindow = 1 << 22;
constexpr int64_t kMaxTransform = 4096;

/// a0 - a1 cos(t) + a2 cos(2 t), t going round once over the window (over the window less one when not periodic).
ImportRule Window(double a0, double a1, double a2) {
  return [a0, a1, a2](NodeImport& n) -> std::vector<Expr> {
    int64_t size = n.ConstantInt(0, "size");
    bool periodic = n.Flag("periodic", true);
    DataType dtype = n.TypeAttr("output_datatype", ElemType::kFloat);
    if (size < 0) n.Invalid(StrCat("'size' is ", size));
    if (size > kMaxWindow) n.Unsupported("a window of that size isn't implemented");
    double period = static_cast<double>(periodic ? size : size - 1);
    Doubles values;
    for (int64_t i = 0; i < size; ++i) {
      double t = period > 0 ? 2 * kPi * static_cast<double>(i) / period : 0;
      values.push_back(a0 - a1 * std::cos(t) + a2 * std::cos(2 * t));
    }
    return {n.Const(ArrayOf(values, {size}, dtype))};
  };
}

/// cos or sin (`sine`) of 2 pi i j / length, [rows, columns].
Expr Waves(NodeImport& n, bool sine, int64_t rows, int64_t columns, int64_t length, DataType dtype) {
  Doubles values;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double t = 2 * kPi * static_cast<double>((i * j) % length) / static_cast<double>(length);
      values.push_back(sine ? std::sin(t) : std::cos(t));
    }
  }
  return n.Const(ArrayOf(values, {rows, columns}, dtype));
}

/// X [..., 1 or 2]: real or complex numbers, transformed along one axis.
Expr ImportDft(NodeImport& n) {
  int rank = n.Rank(0);
  if (rank < 2) n.Invalid(StrCat("the operand has rank ", rank));
  bool inverse = n.Flag("inverse", false), onesided = n.Flag("onesided", false);
  int64_t axis_value = n.version() < 20 ? n.Int("axis", 1) : n.Has(2) ? n.ConstantInt(2, "axis") : -2;
  int axis = n.Axis(axis_value, rank);
  if (axis == rank - 1) n.Invalid("the last axis holds real and imaginary parts");
  Expr x = n.In(0);
  DataType dtype = n.DType(0);
  int64_t parts = n.StaticDim(x, rank - 1);
  if (parts != 1 && parts != 2) n.Invalid(StrCat("the last dimension is ", parts, ", expected 1 or 2"));
  if (onesided && inverse) n.Unsupported("the inverse of a one-sided transform isn't implemented");
  int64_t size = n.StaticDim(x, axis);
  int64_t length = n.Has(1) ? n.ConstantInt(1, "dft_length") : size;
  if (length < 1) n.Invalid(StrCat("'dft_length' is ", length));
  if (length > kMaxTransform) n.Unsupported(StrCat("transforms longer than ", kMaxTransform, " aren't implemented"));
  int64_t used = std::min(size, length);  // more is cut off, less is filled with zeros
  int64_t columns = onesided ? length / 2 + 1 : length;
  x = n.Slice(x, axis, 0, used);
  Ints order, back;
  for (int i = 0; i < rank - 1; ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  Ints with_parts{rank - 1};
  with_parts.insert(with_parts.end(), order.begin(), order.end());
  x = n.Transpose(x, with_parts);  // [parts, ..., used]
  Expr real = n.Squeeze(n.Slice(x, 0, 0, 1), {0});
  Expr cos = Waves(n, false, used, columns, length, dtype), sin = Waves(n, true, used, columns, length, dtype);
  double sign = inverse ? 1 : -1;
  Expr signed_sin = n.Call("multiply", {sin, n.Scalar(dtype, sign)});
  Expr out_real = MatMulAnyRank(n, real, cos), out_imaginary = MatMulAnyRank(n, real, signed_sin);
  if (parts == 2) {
    Expr imaginary = n.Squeeze(n.Slice(x, 0, 1, 2), {0});
    out_real = n.Call("subtract", {out_real, MatMulAnyRank(n, imaginary, signed_sin)});
    out_imaginary = n.Call("add", {out_imaginary, MatMulAnyRank(n, imaginary, cos)});
  }
  Expr y = n.Concat({n.ExpandDims(out_real, rank - 1), n.ExpandDims(out_imaginary, rank - 1)}, rank - 1);
  if (inverse) y = n.Call("multiply", {y, n.Scalar(dtype, 1.0 / static_cast<double>(length))});
  back.assign(static_cast<size_t>(rank), rank - 1);
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return n.Transpose(y, back);
}

}  // namespace

void RegisterSignalRules(RuleTable& table) {
  table.Add("HannWindow", {17}, Window(0.5, 0.5, 0));
  table.Add("HammingWindow", {17}, Window(25.0 / 46, 21.0 / 46, 0));
  table.Add("BlackmanWindow", {17}, Window(0.42, 0.5, 0.08));
  table.Add1("DFT", {17, 20}, ImportDft);
}

}  // namespace treadle::onnx
